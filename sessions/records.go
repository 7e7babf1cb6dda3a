package sessions

//go:generate ./buf.sh generate

// RecordVersion is the version that [Turn] records are written with. It goes up
// when an older reader would misread a new record.
//
// Version 2 has calls that run only when the user has agreed, and messages that
// ask about another record's calls; what has neither is written as version 1.
const RecordVersion = 2
