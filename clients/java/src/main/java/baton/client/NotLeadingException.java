package baton.client;

/** Thrown by {@link Term#check} when no further step may begin. */
public class NotLeadingException extends RuntimeException {
    private static final long serialVersionUID = 1;

    NotLeadingException(Term term) {
        super("the promise of term " + term.token() + " has ended or is about to");
    }
}
