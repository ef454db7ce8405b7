//! What a fault of a candidate means for what is asked of it.

use baton::sim::setup::{Harm, Trouble};

/// Whether a fault keeps a candidate from the store while it lasts.
pub(super) fn is_felt(harm: Harm) -> bool {
    match harm {
        Harm::Pause | Harm::Freeze | Harm::Starve(_) | Harm::Link(_) => true,
        // A candidate that hears no news asks; what the others do is told by what the process does.
        Harm::Deaf | Harm::Lag(_) | Harm::Kill | Harm::Stop | Harm::Leave | Harm::Unasked | Harm::Bend(_) => false,
    }
}

/// Whether the news suffer, and nothing else.
pub(super) fn is_of_news(harm: Harm) -> bool {
    matches!(harm, Harm::Deaf | Harm::Lag(_))
}

/// Whether the store still hears of the process now and then.
pub(super) fn is_limp(harm: Harm) -> bool {
    matches!(harm, Harm::Starve(_) | Harm::Link(_)) && harm != Harm::Link(Trouble::CUT)
}

/// Whether the process stands still.
pub(super) fn is_stall(harm: Harm) -> bool {
    matches!(harm, Harm::Pause | Harm::Freeze | Harm::Starve(_))
}
