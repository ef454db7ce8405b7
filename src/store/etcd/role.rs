//! The role that candidates of an election need in etcd.
//!
//! Pure. Start with [`EtcdRole`]. The rights name the two keys of the election and no prefix: with a
//! right on `/baton/sales/`, candidates of an election `sales` could write every election of a
//! namespace `sales`.

use std::fmt;

/// The names of an election's keys.
const KEYS: [&str; 2] = ["record", "term"];

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
        // Elections of one name in two namespaces have two roles.
        let role = quoted(&format!("baton:{prefix}/{election}"));
        let [record, term] = KEYS.map(|key| quoted(&format!("{prefix}/{election}/{key}")));
        let user = quoted(user);
        write!(
            f,
            "etcdctl role add {role}\n\
             etcdctl role grant-permission {role} readwrite {record}\n\
             etcdctl role grant-permission {role} readwrite {term}\n\
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
            r"etcdctl role add 'baton:/it'\''s/orders'
etcdctl role grant-permission 'baton:/it'\''s/orders' readwrite '/it'\''s/orders/record'
etcdctl role grant-permission 'baton:/it'\''s/orders' readwrite '/it'\''s/orders/term'
etcdctl user add 'shop'
etcdctl user grant-role 'shop' 'baton:/it'\''s/orders'"
        );
    }
}
