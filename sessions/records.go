package sessions

//go:generate ./buf.sh generate

// RecordVersion is the version that [Turn] records are written with. It goes up
// when an older reader would misread a new record.
const RecordVersion = 1
