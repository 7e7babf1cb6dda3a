// Package schema makes the parameters of a chat-completions function of the
// input schema of an MCP tool, in the JSON Schema dialect that a provider takes.
//
// A tour, bottom-up:
//
//   - node is a JSON value as an ordered tree: members keep their order, and
//     numbers and strings their spelling. Nothing is decoded into Go structs.
//   - inline puts what a $ref names in its place, within a budget.
//   - repair mends what no provider takes and no author meant: null keywords,
//     tuples in the old form, numbers given as true.
//   - flatten makes one object of alternatives at the root, and tells the rule
//     in words.
//   - shape sorts a schema into alternatives of one type each, for the dialects
//     that know few keywords: gemini and strict write their own from it.
//   - complete adds members that providers demand.
//   - [Convert] runs these, and bounds the size of what comes out.
//   - [Function.Arguments] undoes in a model's arguments what a dialect added.
//   - [Checker] validates by the server's schema, in a bounded number of steps.
//
// A schema that a dialect takes as it is comes out byte for byte. What a
// dialect cannot express is told in the description; arguments are validated
// against the server's own schema all the same.
package schema
