//! Kubeconfigs that lead nowhere: each is refused at the start, by one error that names what is wrong.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// How long a start may take that is refused: longer than a program is given. What is started all the same is killed, and
/// ends with 137.
const PATIENCE: &str = "40";

/// Starts with this kubeconfig, and returns what is said: one line, and the exit code 2.
fn refused(folder: &Path, kubeconfig: &str, environment: &[(&str, &str)]) -> String {
    let path = folder.join("kubeconfig");
    fs::write(&path, kubeconfig).unwrap();
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", PATIENCE, env!("CARGO_BIN_EXE_baton")]);
    command.env_clear().envs(environment.iter().copied());
    command.args([
        "--election=orders",
        "--backend=lease",
        "--listen=127.0.0.1:0",
        "--probe-listen=none",
    ]);
    let output = command.arg("--kubeconfig").arg(&path).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{kubeconfig}: {said}");
    assert_eq!(said.lines().count(), 1, "{kubeconfig}: {said}");
    said
}

/// A kubeconfig with this in its cluster and in its user.
fn kubeconfig(cluster: &Value, user: &Value) -> Value {
    let mut whole = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "it", "user": user}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    });
    for (key, value) in cluster.as_object().unwrap() {
        whole["clusters"][0]["cluster"][key] = value.clone();
    }
    whole
}

#[test]
fn what_no_client_can_be_made_of_is_named_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let (two_lines, empty) = (written("two-lines", "abc\ndef\n"), written("empty", "\n"));
    let no_certificate = written("no-certificate", "hello\n");
    let program = |command: &str, args: &[&str]| {
        json!({ "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": args, "interactiveMode": "Never",
        } })
    };
    let (cluster, user) = (&json!({}), &json!({ "token": "abc" }));
    let two_lines_of_a_token = r#"{"status": {"token": "abc\ndef"}}"#;
    let mut asking = program("sh", &["-c", "read answer"]);
    asking["exec"]["interactiveMode"] = "Always".into();
    let (oidc, gcp) =
        (json!({ "id-token": "abc\ndef" }), json!({ "cmd-path": "echo", "cmd-args": "abc" }));
    let mut elsewhere = kubeconfig(cluster, user);
    elsewhere["current-context"] = "elsewhere".into();
    for (kubeconfig, named) in [
        (json!({}), "failed to determine current context"),
        (elsewhere, "elsewhere"),
        (kubeconfig(&json!({ "server": null }), user), "cluster url is missing"),
        (kubeconfig(&json!({ "server": "not a url" }), user), "failed to parse cluster url"),
        (
            kubeconfig(&json!({ "server": "ftp://127.0.0.1/" }), user),
            "ftp://127.0.0.1/ is not the address of an API server",
        ),
        (kubeconfig(&json!({ "certificate-authority": "/nowhere" }), user), "/nowhere"),
        (
            kubeconfig(&json!({ "certificate-authority": no_certificate }), user),
            "holds no certificate",
        ),
        (
            kubeconfig(&json!({ "proxy-url": "http://127.0.0.1:3128" }), user),
            "not through http://127.0.0.1:3128/",
        ),
        (
            kubeconfig(cluster, &json!({ "token": "abc\ndef" })),
            "the bearer token in the kubeconfig cannot be sent",
        ),
        (
            kubeconfig(cluster, &json!({ "tokenFile": "/nowhere" })),
            "cannot read the token file /nowhere",
        ),
        (kubeconfig(cluster, &json!({ "tokenFile": two_lines })), "two-lines cannot be sent"),
        (kubeconfig(cluster, &json!({ "tokenFile": empty })), "empty cannot be sent"),
        (
            kubeconfig(
                cluster,
                &json!({ "client-certificate": "/nowhere", "client-key": "/nowhere" }),
            ),
            "/nowhere",
        ),
        (
            kubeconfig(
                cluster,
                &json!({ "client-certificate-data": "aGVsbG8K", "client-key-data": "aGVsbG8K" }),
            ),
            "key",
        ),
        (
            kubeconfig(cluster, &json!({ "exec": { "args": [] } })),
            "the kubeconfig's exec names no command",
        ),
        (kubeconfig(cluster, &program("no-such-program", &[])), "cannot run no-such-program"),
        (
            kubeconfig(cluster, &program("echo", &["hello"])),
            "the output of echo is not an ExecCredential",
        ),
        (
            kubeconfig(cluster, &program("echo", &[r#"{"status": {}}"#])),
            "echo printed neither a token nor",
        ),
        (
            kubeconfig(cluster, &program("echo", &[two_lines_of_a_token])),
            "the bearer token in the output of echo cannot be",
        ),
        (kubeconfig(cluster, &asking), "sh needs a terminal"),
        (kubeconfig(cluster, &json!({ "auth-provider": { "name": "azure" } })), "kubelogin"),
        (
            kubeconfig(cluster, &json!({ "auth-provider": { "name": "oidc", "config": oidc } })),
            "oidc\\\" is not supported",
        ),
        (
            kubeconfig(cluster, &json!({ "auth-provider": { "name": "gcp", "config": gcp } })),
            "gcp\\\" is not supported",
        ),
    ] {
        let said = refused(folder.path(), &kubeconfig.to_string(), &[]);
        assert!(said.contains(named), "{named:?} is not in {said}");
    }
    let proxy = [("HTTPS_PROXY", "http://127.0.0.1:3128")];
    let said = refused(folder.path(), &kubeconfig(cluster, user).to_string(), &proxy);
    assert!(said.contains("unset HTTPS_PROXY"), "{said}");
    let said = refused(folder.path(), ": : :", &[]);
    assert!(said.contains("failed to parse kubeconfig YAML"), "{said}");
}
