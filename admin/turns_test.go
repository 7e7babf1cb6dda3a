package admin

import (
	"fmt"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/loop"
)

func TestTurnsKeepTheLast(t *testing.T) {
	var turns Turns
	for i := range keptTurns + 50 {
		turns.Start(stands(loop.Report{ID: fmt.Sprint(i), StopReason: loop.StopAnswer}))()
	}
	got := turns.Ended(1000)
	if len(got) != keptTurns || got[0].ID != fmt.Sprint(keptTurns+49) || got[keptTurns-1].ID != "50" || got[0].Number != keptTurns+50 {
		t.Errorf("%d turns, from %s to %s", len(got), got[0].ID, got[len(got)-1].ID)
	}
	if _, ok := turns.Find(50); ok {
		t.Error("a turn is found that is not kept")
	}
}

func TestTurnsThatRun(t *testing.T) {
	var turns Turns
	report := loop.Report{ID: "a"}
	over := turns.Start(ledger(func() *loop.Report { r := report; return &r }))
	turns.Start(stands(loop.Report{ID: "b"}))
	broken := turns.Start(stands(loop.Report{ID: "c"}))
	if got := turns.Running(1000); len(got) != 3 || got[0].ID != "c" || !got[0].Running || turns.Active() != 3 || len(turns.Ended(1000)) != 0 {
		t.Errorf("%+v", got)
	}
	if got := turns.Running(1); len(got) != 1 || got[0].ID != "c" {
		t.Errorf("%+v", got)
	}
	broken() // it panicked: it has no end to show
	report.StopReason = loop.StopAnswer
	over()
	if got := turns.Ended(1000); len(got) != 1 || got[0].ID != "a" || got[0].Running || turns.Active() != 1 {
		t.Errorf("%+v", got)
	}
	if got, ok := turns.Find(2); !ok || got.ID != "b" {
		t.Errorf("%+v", got)
	}
	if _, ok := turns.Find(3); ok {
		t.Error("the broken turn is still there")
	}
}
