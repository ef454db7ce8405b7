//! Unusable kubeconfigs: each is refused at the start, with one error that names the cause.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// How many seconds a refused start may take, more than a credential program is given. A process
/// that still runs then is killed, and ends with 137.
const PATIENCE: &str = "40";

/// Starts with this kubeconfig. Checks for exit code 2 and a single line on stderr; returns the
/// line.
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
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{kubeconfig}: {error}");
    assert_eq!(error.lines().count(), 1, "{kubeconfig}: {error}");
    error
}

/// A kubeconfig with these fields in its cluster, and this user.
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
fn unusable_kubeconfig_is_refused_with_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let (two_lines, empty) = (write("two-lines", "abc\ndef\n"), write("empty", "\n"));
    let no_certificate = write("no-certificate", "hello\n");
    let program = |command: &str, args: &[&str]| {
        json!({ "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": args, "interactiveMode": "Never",
        } })
    };
    let (cluster, user) = (&json!({}), &json!({ "token": "abc" }));
    let token_with_two_lines = r#"{"status": {"token": "abc\ndef"}}"#;
    let mut interactive = program("sh", &["-c", "read answer"]);
    interactive["exec"]["interactiveMode"] = "Always".into();
    let (oidc, gcp) =
        (json!({ "id-token": "abc\ndef" }), json!({ "cmd-path": "echo", "cmd-args": "abc" }));
    let mut elsewhere = kubeconfig(cluster, user);
    elsewhere["current-context"] = "elsewhere".into();
    for (kubeconfig, cause) in [
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
            "the proxy http://127.0.0.1:3128/ is not supported",
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
            kubeconfig(cluster, &program("echo", &[token_with_two_lines])),
            "the bearer token in the output of echo cannot be",
        ),
        (kubeconfig(cluster, &interactive), "sh needs a terminal"),
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
        let error = refused(folder.path(), &kubeconfig.to_string(), &[]);
        assert!(error.contains(cause), "{cause:?} is not in {error}");
    }
    let proxy = [("HTTPS_PROXY", "http://127.0.0.1:3128")];
    let error = refused(folder.path(), &kubeconfig(cluster, user).to_string(), &proxy);
    assert!(error.contains("unset HTTPS_PROXY"), "{error}");
    let error = refused(folder.path(), ": : :", &[]);
    assert!(error.contains("failed to parse kubeconfig YAML"), "{error}");
}
