package baton

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrNotLeading means that the sidecar said that this process does not lead. Any other error of
// [Client.Ask] means the same for the caller: it does not lead.
var ErrNotLeading = errors.New("not leading")

var started = time.Now()

func monotonic() time.Duration { return time.Since(started) }

// A Token is a fencing token: a decimal number of up to 128 bits. Pass it to every resource that
// you write to. A later term has a larger token.
type Token string

const largestToken = "340282366920938463463374607431768211455"

// Compare returns -1, 0, or +1 if t is smaller than, equal to, or larger than other.
func (t Token) Compare(other Token) int {
	return cmp.Or(cmp.Compare(len(t), len(other)), strings.Compare(string(t), string(other)))
}

func parseToken(text string) (Token, bool) {
	isDecimal := text != "" && strings.Trim(text, "0123456789") == ""
	text = cmp.Or(strings.TrimLeft(text, "0"), "0")
	return Token(text), isDecimal && Token(text).Compare(largestToken) <= 0
}

// An Answer is a promise of the sidecar: this process leads until the promise ends. The zero value
// promises nothing.
type Answer struct {
	// Token is the fencing token of the promise.
	Token    Token
	validFor time.Duration
	until    time.Duration
}

// Remaining returns how long the promise still holds, and 0 or less if it does not.
func (a Answer) Remaining() time.Duration { return a.until - now() }

// IsLeading tells whether the promise still holds. It reads the clock, and asks nothing.
func (a Answer) IsLeading() bool { return a.Remaining() > 0 }

// A reply is what one request brought.
type reply struct {
	Answer
	// revision is that of the sidecar's standing, or noRevision.
	revision int64
	// err tells why there is no promise.
	err error
}

const noRevision = -1

// longestValidity is more than any promise holds: a larger number is a mistake.
const longestValidity = 1 << 31

// read interprets an answer. asked is the clock's reading from before the request was sent.
func read(status int, body []byte, asked time.Duration) reply {
	none := reply{revision: noRevision}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) == nil {
		json.Unmarshal(fields["revision"], &none.revision)
	}
	if status != http.StatusOK {
		none.err = fmt.Errorf("status %d", status)
		if status == http.StatusServiceUnavailable {
			none.err = ErrNotLeading
		}
		return none
	}
	var leads bool
	var standing, text string
	var milliseconds int64
	err := errors.Join(
		json.Unmarshal(fields["is_leader"], &leads),
		json.Unmarshal(fields["standing"], &standing),
		json.Unmarshal(fields["token"], &text),
		json.Unmarshal(fields["valid_for_ms"], &milliseconds),
	)
	token, isToken := parseToken(text)
	isValid := milliseconds > 0 && milliseconds <= longestValidity
	if err != nil || !leads || standing != "leading" || !isToken || !isValid {
		none.err = errors.New("status 200 without a promise")
		return none
	}
	validFor := time.Duration(milliseconds) * time.Millisecond
	return reply{Answer{token, validFor, asked + validFor}, none.revision, nil}
}
