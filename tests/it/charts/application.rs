//! The application chart of the library's README, verbatim: its files, its commands, and their
//! results.

use super::server::{create, dry_run, pod};
use super::tools::{Helm, assert_refused, chart, find, in_repository, objects, sidecar};
use crate::rig::ApiServer;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use tempfile::TempDir;

pub(super) const IN_THE_POD: &str = "templates/deployment.yaml, in the Pod's spec";

#[test]
fn readme_commands_add_a_sidecar_with_its_rights() {
    for helm in Helm::BOTH {
        let application = Application::new(&library_readme(IN_THE_POD));
        let [build, install] = commands();
        let error = application.helm(helm, &install.replace("install", "template")).unwrap_err();
        assert!(error.contains("missing in charts/ directory: baton-sidecar"), "{helm:?}: {error}");

        application.helm(helm, &build).unwrap();
        let namespace = ApiServer::shared().namespace();
        let kubeconfig = namespace.admin.kubeconfig();
        let install = format!(
            "{install} --kubeconfig={} --namespace={}",
            kubeconfig.display(),
            namespace.name
        );
        application.helm(helm, &install).unwrap();
        let get_manifest = install.replacen("install shop shop", "get manifest shop", 1);
        let installed = objects(&application.helm(helm, &get_manifest).unwrap());
        let deployment = find(&installed, "Deployment", "shop");
        let account =
            deployment["spec"]["template"]["spec"]["serviceAccountName"].as_str().unwrap();
        let subject = &find(&installed, "RoleBinding", "orders")["subjects"][0];
        assert_eq!(
            (&subject["name"], &subject["namespace"]),
            (&account.into(), &namespace.name.as_str().into())
        );
        find(&installed, "ServiceAccount", account);
        assert_eq!(
            find(&installed, "Role", "orders")["metadata"]["labels"]["app.kubernetes.io/name"],
            "shop"
        );
        assert_eq!(sidecar(deployment)["env"][0]["value"], "orders");
        let push = format!("docker push {}\n", sidecar(deployment)["image"].as_str().unwrap());
        assert!(guide().contains(&push), "not in the guide: {push}");
    }
}

#[test]
fn guide_has_the_same_blocks_and_commands() {
    for title in ["Chart.yaml", IN_THE_POD, "templates/baton.yaml"] {
        let block = format!("```yaml\n# {title}\n{}```", library_readme(title));
        assert!(guide().contains(&block), "not in the guide:\n{block}");
    }
    for command in commands() {
        assert!(guide().contains(&format!("helm {command}\n")), "not in the guide: {command}");
    }
}

#[test]
fn sidecar_items_fit_before_those_of_the_application() {
    let text = fs::read_to_string(chart("baton-sidecar").join("README.md")).unwrap();
    let items = text
        .split("```yaml\n")
        .find(|block| block.trim_start().starts_with("initContainers:"))
        .unwrap();
    let objects = Application::built(items.split("```").next().unwrap()).render();
    let pod = &find(&objects, "Deployment", "shop")["spec"]["template"]["spec"];
    for list in ["initContainers", "volumes"] {
        assert_eq!(pod[list].as_array().unwrap().len(), 2, "{pod:#}");
        assert_eq!(pod[list][1]["name"], "yours");
    }
}

#[test]
fn application_chart_reports_wrong_sidecar_settings() {
    let application = Application::built(&library_readme(IN_THE_POD));
    let refusals = [
        ("--set=baton.election=Orders", ["/election", "Orders"]),
        ("--set=baton.elections=orders", ["elections", "not allowed"]),
        (
            "--set=baton.config.renewDeadline=14s",
            ["unsafe timing", "run: baton check-config --election=orders --lease-duration=15s"],
        ),
    ];
    for (setting, words) in refusals {
        assert_refused(&application.chart(), setting, &words);
    }
    fs::write(application.chart().join("values.yaml"), "baton: {}").unwrap();
    let missing = [
        ("--set=baton.serviceAccountName=shop", "no election is named: set `election`"),
        ("--set=baton.election=orders", "no service account is named: set `serviceAccountName`"),
    ];
    for (setting, words) in missing {
        assert_refused(&application.chart(), setting, &[words]);
    }
}

#[test]
fn two_sidecars_in_one_pod_share_nothing() {
    let application =
        Application::new(&library_readme("templates/deployment.yaml, of two elections"));
    application.write("Chart.yaml", &library_readme("Chart.yaml, of two elections"));
    application.write("values.yaml", &library_readme("values.yaml, of two elections"));
    application
        .write("templates/baton.yaml", &library_readme("templates/baton.yaml, of two elections"));
    application.build();
    let objects = application.render();
    let deployment = find(&objects, "Deployment", "shop");
    let pod = &deployment["spec"]["template"]["spec"];
    let [first, second] = [0, 1].map(|n| &pod["initContainers"][n]);
    assert_eq!(first, sidecar(deployment));
    let ports = |container: &Value| container["ports"].as_array().unwrap().clone();
    assert_eq!(ports(first)[0], json!({"name": "baton", "containerPort": 4040}));
    assert_eq!(
        ports(second),
        [
            json!({"name": "baton-reports", "containerPort": 4050}),
            json!({"name": "metrics-reports", "containerPort": 4051})
        ]
    );
    assert_eq!(
        (&second["name"], &pod["volumes"][1]["name"]),
        (&json!("baton-reports"), &json!("baton-state-reports"))
    );
    assert_eq!(second["volumeMounts"][0]["name"], "baton-state-reports");
    let variable = |container: &Value, name: &str| {
        let variables = container["env"].as_array().unwrap();
        variables
            .iter()
            .find(|variable| variable["name"] == name)
            .map(|variable| variable["value"].clone())
    };
    let variables =
        ["BATON_ELECTION", "BATON_LISTEN", "BATON_PROBE_LISTEN"].map(|name| variable(second, name));
    assert_eq!(variables, ["reports", "localhost:4050", ":4051"].map(|value| Some(json!(value))));
    assert_eq!(variable(first, "BATON_LISTEN"), None);
    find(&objects, "RoleBinding", "reports");

    let namespace = ApiServer::shared().namespace();
    create(&namespace.admin, &namespace.name, find(&objects, "ServiceAccount", "shop")).unwrap();
    let mut pod = self::pod(deployment);
    pod["spec"]["containers"] = json!([{"name": "shop", "image": "localhost/shop:1"}]);
    let admitted = dry_run(&namespace.admin, &namespace.name, &pod);
    assert!(admitted.is_ok(), "{admitted:?}");
    assert_refused(
        &application.chart(),
        "--set=reports.suffix=quarterly",
        &["/suffix", "quarterly"],
    );
}

/// A folder with a chart `shop`, and a clone of this repository beside it.
pub(super) struct Application(TempDir);

impl Application {
    /// A chart with these lines in its Pod's spec, and the other files of the library's README.
    pub(super) fn new(in_pod: &str) -> Self {
        let application = Self(TempDir::new().unwrap());
        symlink(in_repository(""), application.0.path().join("baton")).unwrap();
        fs::create_dir_all(application.chart().join("templates")).unwrap();
        let deployment = "\
            apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: shop\nspec:\n  \
            selector:\n    matchLabels:\n      app: shop\n  \
            template:\n    metadata:\n      labels:\n        app: shop\n    spec:\n      \
            containers:\n        - name: application\n          image: shop\n";
        application.write("templates/deployment.yaml", &format!("{deployment}{in_pod}"));
        for file in ["Chart.yaml", "values.yaml", "templates/baton.yaml"] {
            application.write(file, &library_readme(file));
        }
        application
    }

    /// Writes a file of the chart.
    pub(super) fn write(&self, file: &str, text: &str) {
        let head =
            if file == "Chart.yaml" { "apiVersion: v2\nname: shop\nversion: 1.0.0\n" } else { "" };
        fs::write(self.chart().join(file), format!("{head}{text}")).unwrap();
    }

    /// The same, with its dependency, the library chart.
    pub(super) fn built(in_pod: &str) -> Self {
        let application = Self::new(in_pod);
        application.build();
        application
    }

    pub(super) fn build(&self) {
        let [build, _install] = commands();
        self.helm(Helm::Four, &build).unwrap();
    }

    pub(super) fn chart(&self) -> PathBuf {
        self.0.path().join("shop")
    }

    pub(super) fn render(&self) -> Vec<Value> {
        let [three, four] = Helm::BOTH.map(|helm| helm.template(&self.chart(), &[]).unwrap());
        assert_eq!(three, four);
        four
    }

    /// Runs a Helm command in the folder that contains the chart.
    fn helm(&self, helm: Helm, command: &str) -> Result<String, String> {
        helm.run_in(self.0.path(), &command.split(' ').collect::<Vec<_>>())
    }
}

/// The two commands of the library's README, without `helm`.
fn commands() -> [String; 2] {
    let text = fs::read_to_string(chart("baton-sidecar").join("README.md")).unwrap();
    let block = text
        .split("```sh\n")
        .nth(1)
        .and_then(|block| block.split("```").next())
        .expect("the README has a block of commands");
    let commands: Vec<_> = block
        .lines()
        .map(|line| line.strip_prefix("helm ").expect("every command is Helm's").to_owned())
        .collect();
    commands.try_into().expect("the block has two commands")
}

/// The block of the library's README that begins with `# title`, without that line.
pub(super) fn library_readme(title: &str) -> String {
    let text = fs::read_to_string(chart("baton-sidecar").join("README.md")).unwrap();
    let block = text
        .split(&format!("```yaml\n# {title}\n"))
        .nth(1)
        .unwrap_or_else(|| panic!("no block {title}"));
    block.split("```").next().unwrap().to_owned()
}

fn guide() -> String {
    fs::read_to_string(in_repository("docs/guides/helm.md")).unwrap()
}
