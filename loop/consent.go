package loop

import "context"

// Why a call that runs only when the user has agreed does not run.
const (
	DeclinedByUser    = "denied"
	DeclinedLate      = "late"      // the user agreed when the question was open no more
	DeclinedUnaskable = "unaskable" // the question could not be kept
)

type consentKey struct{}

// Consented says whether the user has agreed to the call whose context it is. Who
// that was is who the request is from: nobody else's answer counts.
func Consented(ctx context.Context) bool { return ctx.Value(consentKey{}) != nil }

func withConsent(ctx context.Context) context.Context {
	return context.WithValue(ctx, consentKey{}, true)
}
