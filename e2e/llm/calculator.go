package llm

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	sumQuestion = regexp.MustCompile(`(-?\d+(?:\.\d+)?) plus (-?\d+(?:\.\d+)?)`)
	sumResult   = regexp.MustCompile(`Result: (\S+)`)
)

// Calculator is a brain that knows one thing: for "What is 5 plus 7?" it calls the function whose name ends in
// add_numbers, and when the result is there it puts it in words. Like a real model it can use only the functions that
// the request offers.
func Calculator(r *Request) Step {
	question, result := conversation(r.Chat.Messages)
	numbers := sumQuestion.FindStringSubmatch(question)
	if numbers == nil {
		return Text("Ask me what 5 plus 7 is.")
	}
	if result != "" {
		if sum := sumResult.FindStringSubmatch(result); sum != nil {
			return Answer{Text: fmt.Sprintf("%s plus %s is %s.", numbers[1], numbers[2], sum[1]), Prompt: 96, Output: 9}.Step()
		}
		return Text("The tool could not add: " + result)
	}
	for _, name := range r.ToolNames() {
		if strings.HasSuffix(name, "add_numbers") {
			arguments := fmt.Sprintf(`{"a":%s,"b":%s}`, numbers[1], numbers[2])
			return Answer{Calls: []ToolCall{Call("call_add", name, arguments)}, Prompt: 58, Output: 18}.Step()
		}
	}
	return Text("I have no tool to add with.")
}

// conversation returns the last user message, and the text of the last tool message after it.
func conversation(messages []Message) (question, result string) {
	for _, m := range messages {
		switch m.Role {
		case "user":
			question, result = m.Text(), ""
		case "tool":
			result = m.Text()
		}
	}
	return question, result
}
