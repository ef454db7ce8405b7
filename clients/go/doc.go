// Package baton runs work only while the Baton sidecar says that this process leads.
//
//	for ctx.Err() == nil {
//		err := baton.Run(ctx, func(ctx context.Context, term baton.Term) error {
//			for term.Check() == nil { // a step may begin
//				if err := ledger.Append(ctx, term.Token(), nextLine()); err != nil {
//					return err
//				}
//			}
//			return nil
//		})
//		if err != nil && !errors.Is(err, baton.ErrRevoked) {
//			return err
//		}
//	}
//
// [Run] waits until this process leads, and cancels the work's context one step before the promise
// ends. [Ask] asks once, and [Changes] tells when leadership is granted and revoked. [Client] has
// the same as methods, with settings.
//
// A promise counts from before its request, on a clock that counts suspend (CLOCK_BOOTTIME on
// Linux; elsewhere Go's monotonic clock, which may stop during a suspend). Nothing but an answer of
// the sidecar extends it.
package baton
