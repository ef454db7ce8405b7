//! The role that candidates of an election need in etcd.
//!
//! Pure. Start with [`EtcdRole`]. The right on a prefix of keys covers the record, the term, and any
//! state that an application fences by the term below the same prefix.

use std::fmt;

/// A role limited to one election, and the user that gets it; displays as `etcdctl` commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdRole {
    /// The election.
    pub election: String,
    /// The prefix of the keys, without a slash at its end.
    pub prefix: String,
    /// The user of the candidates.
    pub user: String,
}

impl fmt::Display for EtcdRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { election, prefix, user } = self;
        let role = quoted(&format!("baton-{election}"));
        let (keys, user) = (quoted(&format!("{prefix}/{election}/")), quoted(user));
        write!(
            f,
            "etcdctl role add {role}\n\
             etcdctl role grant-permission --prefix=true {role} readwrite {keys}\n\
             etcdctl user add {user}\n\
             etcdctl user grant-role {user} {role}"
        )
    }
}

/// `text` as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_quoted_for_a_shell() {
        let role = EtcdRole {
            election: "orders".to_owned(),
            prefix: "/it's".to_owned(),
            user: "shop".to_owned(),
        };
        assert_eq!(
            role.to_string(),
            r"etcdctl role add 'baton-orders'
etcdctl role grant-permission --prefix=true 'baton-orders' readwrite '/it'\''s/orders/'
etcdctl user add 'shop'
etcdctl user grant-role 'shop' 'baton-orders'"
        );
    }
}
