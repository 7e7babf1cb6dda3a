package loop

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/proto"
)

// Fields of a stored turn, besides its results.
const (
	turnField    = "turn"
	attemptField = "attempt"
)

func encodeRecord(r *record) (sessions.Fields, error) {
	t := &sessions.Turn{Version: 1, Before: r.before, Message: r.message, Visible: r.visible, About: r.about, Span: r.span}
	if !r.openUntil.IsZero() {
		t.OpenUntilUnixMs = r.openUntil.UnixMilli()
	}
	for _, c := range r.calls {
		t.Calls = append(t.Calls, &sessions.Call{Id: c.id, Name: c.name, Hidden: c.hidden, Repeatable: c.repeatable, Asks: c.asks, Target: []byte(c.target)})
	}
	if r.about != "" || len(r.asking()) > 0 {
		t.Version = sessions.RecordVersion
	}
	raw, err := proto.Marshal(t)
	if err != nil {
		return nil, err
	}
	fields := sessions.Fields{turnField: raw, attemptField: []byte(r.attempt)}
	for place, result := range r.results {
		one, err := encodeResult(r.attempt, place, result)
		if err != nil {
			return nil, err
		}
		for name, value := range one {
			fields[name] = value
		}
	}
	for _, q := range r.questions {
		if fields[questionField(r.attempt, q.id)], err = proto.Marshal(q.proto()); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// decodeRecord reads a record; nil if there is none.
func decodeRecord(fields sessions.Fields) (*record, error) {
	raw, ok := fields[turnField]
	if !ok {
		return nil, nil
	}
	t := &sessions.Turn{}
	if err := proto.Unmarshal(raw, t); err != nil {
		return nil, err
	}
	if t.Version > sessions.RecordVersion {
		return nil, nil // of a newer replica
	}
	r := &record{before: t.Before, message: t.Message, visible: t.Visible, attempt: string(fields[attemptField]), about: t.About, span: t.Span}
	if t.OpenUntilUnixMs != 0 {
		r.openUntil = time.UnixMilli(t.OpenUntilUnixMs)
	}
	for i, c := range t.Calls {
		arguments := gjson.GetBytes(t.Message, fmt.Sprintf("tool_calls.%d.function.arguments", i)).String()
		r.calls = append(r.calls, heldCall{id: c.Id, name: c.Name, arguments: arguments, hidden: c.Hidden, repeatable: c.Repeatable, asks: c.Asks, target: string(c.Target)})
	}
	return r, r.take(fields)
}

// take reads the results, the decision and the questions that are there by now.
func (r *record) take(fields sessions.Fields) (err error) {
	if r.results == nil {
		r.results = map[int]Result{}
	}
	if raw, ok := fields[decisionField(r.attempt)]; ok {
		if r.decision, err = decodeDecision(raw); err != nil {
			return err
		}
	}
	if r.questions, err = decodeElicitations(fields, r.attempt); err != nil {
		return err
	}
	for i := range r.calls {
		raw, ok := fields[resultField(r.attempt, i)]
		if !ok {
			continue
		}
		result, err := decodeResult(raw)
		if err != nil {
			return err
		}
		r.results[i] = result
	}
	return nil
}

func encodeResult(attempt string, place int, r Result) (sessions.Fields, error) {
	return encodeResultAs(resultField(attempt, place), r)
}

func encodeCall(segment, place int, r Result) (sessions.Fields, error) {
	return encodeResultAs(callField(segment, place), r)
}

func encodeResultAs(field string, r Result) (sessions.Fields, error) {
	r = r.bounded()
	// A tool's text may hold bytes that are no UTF-8; a protobuf string may not.
	out := &sessions.Result{Text: strings.ToValidUTF8(r.Text, "\ufffd"), Outcome: r.Outcome, FinishedUnixMs: time.Now().UnixMilli(), Usage: []byte(r.usage), Span: r.span}
	for _, i := range r.Images {
		out.Images = append(out.Images, &sessions.Image{Mime: strings.ToValidUTF8(i.MIME, "\ufffd"), Data: i.Data})
	}
	raw, err := proto.Marshal(out)
	return sessions.Fields{field: raw}, err
}

func decodeResult(raw []byte) (Result, error) {
	in := &sessions.Result{}
	err := proto.Unmarshal(raw, in)
	r := Result{Text: in.Text, Outcome: in.Outcome, usage: string(in.Usage), span: in.Span}
	for _, i := range in.Images {
		r.Images = append(r.Images, Image{i.Mime, i.Data})
	}
	return r, err
}

// encodeSegment encodes a reply; the calls at the places in asks run only when the
// user has agreed.
func encodeSegment(place int, reply *chat.Reply, asks map[int]bool, targets []string) (sessions.Fields, error) {
	s := &sessions.Segment{Message: []byte(reply.Message), Finish: reply.Finish, Usage: []byte(reply.Usage)}
	for i, c := range reply.Calls {
		s.Calls = append(s.Calls, &sessions.Call{Id: c.ID, Name: c.Name, Asks: asks[i], Target: []byte(targets[i])})
	}
	raw, err := proto.Marshal(s)
	return sessions.Fields{segmentField(place): raw}, err
}

// decodeJournal reads the rounds of a journal, in order.
func decodeJournal(fields sessions.Fields) ([]journalRound, error) {
	var rounds []journalRound
	for {
		raw, ok := fields[segmentField(len(rounds))]
		if !ok {
			break
		}
		s := &sessions.Segment{}
		if err := proto.Unmarshal(raw, s); err != nil {
			return nil, err
		}
		round := journalRound{message: string(s.Message), finish: s.Finish, usage: string(s.Usage), results: map[int]Result{}, asks: map[int]bool{}}
		for i, c := range s.Calls {
			round.targets = append(round.targets, string(c.Target))
			if c.Asks {
				round.asks[i] = true
			}
		}
		var err error
		if round.pause, err = decodePause(fields[pauseField(len(rounds))]); err != nil {
			return nil, err
		}
		rounds = append(rounds, round)
	}
	for name, raw := range fields {
		var segment, place int
		if n, _ := fmt.Sscanf(name, "c:%d:%d", &segment, &place); n != 2 || segment >= len(rounds) {
			continue
		}
		result, err := decodeResult(raw)
		if err != nil {
			return nil, err
		}
		if fields[refusedField] != nil {
			result = result.shorten()
		}
		rounds[segment].results[place] = result
	}
	return rounds, nil
}

// waitField says that a resume waits for results.
func waitField(attempt string) string { return "w:" + attempt }

func segmentField(place int) string { return "s:" + strconv.Itoa(place) }

func pauseField(place int) string { return "p:" + strconv.Itoa(place) }

func callField(segment, place int) string {
	return "c:" + strconv.Itoa(segment) + ":" + strconv.Itoa(place)
}

func decisionField(attempt string) string { return "d:" + attempt }

func questionField(attempt, id string) string { return "q:" + attempt + ":" + id }

func replyField(attempt, id string) string { return "a:" + attempt + ":" + id }

func resultField(attempt string, place int) string {
	return "r:" + attempt + ":" + strconv.Itoa(place)
}
