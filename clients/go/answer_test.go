package baton

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const promise = `{"standing":"leading","is_leader":true,"token":"7","valid_for_ms":8000}`

func TestPromiseCountsFromBeforeTheRequest(t *testing.T) {
	asked := now() - 4*time.Second
	r := read(200, []byte(promise), asked)
	if r.err != nil || r.Token != "7" || r.until != asked+8*time.Second {
		t.Fatalf("%+v", r)
	}
	if left := r.Remaining(); left <= 0 || left > 4*time.Second {
		t.Errorf("the promise holds %v", left)
	}
	if read(200, []byte(promise), now()-8*time.Second).IsLeading() {
		t.Error("an old promise holds")
	}
}

func TestTokensHaveUpTo128Bits(t *testing.T) {
	for text, isToken := range map[string]bool{
		"0": true, "7": true, largestToken: true,
		"340282366920938463463374607431768211456": false,
		"": false, "-7": false, "+7": false, " 7": false, "7\n": false, "1_0": false, "\u0667": false,
	} {
		if _, ok := parseToken(text); ok != isToken {
			t.Errorf("%q is a token: %v", text, ok)
		}
	}
}

func TestTokensCompareAsNumbers(t *testing.T) {
	nine, ten := Token("9"), Token("10")
	if nine.Compare(ten) != -1 || ten.Compare(nine) != 1 || nine.Compare(nine) != 0 {
		t.Error("9 must be smaller than 10")
	}
	if token, _ := parseToken("007"); token != "7" {
		t.Errorf("007 is %s", token)
	}
}

func TestAnythingElseIsNoPromise(t *testing.T) {
	for _, change := range [][2]string{
		{`true`, `"true"`}, {`true`, `1`}, {`true`, `null`}, {`"leading"`, `"resigning"`},
		{`"7"`, `7`}, {`"7"`, `null`}, {`8000`, `0`}, {`8000`, `-1`}, {`8000`, `1.5`}, {`8000`, `1e30`},
		{`"token"`, `"Token"`}, {`is_leader`, `Is_Leader`}, {`}`, `}}`}, {`}`, ``},
	} {
		body := strings.Replace(promise, change[0], change[1], 1)
		if r := read(200, []byte(body), now()); r.err == nil || r.Token != "" {
			t.Errorf("%s is a promise", body)
		}
	}
}

func TestOnly503SaysNotLeading(t *testing.T) {
	for status, refuses := range map[int]bool{503: true, 500: false, 404: false, 204: false} {
		r := read(status, []byte(promise), now())
		if r.err == nil || errors.Is(r.err, ErrNotLeading) != refuses {
			t.Errorf("status %d: %v", status, r.err)
		}
	}
}
