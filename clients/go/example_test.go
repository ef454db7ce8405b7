package baton_test

import (
	"context"
	"errors"
	"log"

	baton "baton.test/clients/go"
)

func appendLine(context.Context, baton.Token) error { return nil }

func ExampleRun() {
	ctx := context.Background()
	for ctx.Err() == nil {
		err := baton.Run(ctx, func(ctx context.Context, term baton.Term) error {
			for term.Check() == nil { // a step may begin
				if err := appendLine(ctx, term.Token()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, baton.ErrRevoked) {
			log.Fatal(err)
		}
	}
}
