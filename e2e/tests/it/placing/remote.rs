//! `fieldcache place --server`: the same requests get the same responses as from a folder, and no list is requested.
//!
//! The server is before a folder, and before a kube-apiserver with clusters of manifests/placement in it, of which the
//! folder is then a dump. [`super::super::operator`] tests what users with few permissions see.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Endpoint};
use e2e::kubectl::Finished;
use e2e::shell::Shell;
use serde_json::json;

use super::repository;

const DEADLINE: Duration = Duration::from_secs(30);

const FORMS: [&str; 4] = ["", "-o wide", "-o json", "-o yaml"];

/// A Pod with a field that there is none of, and one whose RuntimeClass tolerates a taint.
const WRITTEN: &str = r"
cat > misspelt.yaml <<END
kind: Pod
metadata: {name: misspelt}
spec: {nodeSelectr: {disktype: ssd}, containers: [{name: a, image: a}]}
END
cat > refused.yaml <<END
kind: Pod
metadata: {name: refused}
spec: {nodeSelectr: {disktype: ssd}, contaners: [{name: a, image: a}], tolerations: [{key: a, operator: Like}]}
END
cat > sandboxed.yaml <<END
kind: Pod
metadata: {name: sandboxed}
spec: {runtimeClassName: sandbox, containers: [{name: a, image: a}]}
END
";

/// A server that reports which requests it received.
struct Server {
    fieldcache: Fieldcache,
    metrics: Client,
}

impl Server {
    async fn start(arguments: &[&str]) -> Result<Server> {
        let arguments = arguments.iter().chain(&["--metrics-address", "127.0.0.1:0"]).map(|text| (*text).to_owned());
        let fieldcache = Box::pin(Fieldcache::serve(arguments)).await?;
        let reported = fieldcache.process().line("the line with the address of the metrics", DEADLINE, |line| {
            Some(line.strip_prefix("metrics: ")?.strip_suffix("/metrics")?.to_owned())
        });
        let metrics = Endpoint::plain(&reported.await?)?.client();
        Ok(Server { fieldcache, metrics })
    }

    /// Verbs and resources, such as `LIST pods`.
    async fn requested(&self) -> Result<BTreeSet<String>> {
        let text = self.metrics.get("/metrics").await?.success()?.text();
        let requests = text.lines().filter_map(|line| line.strip_prefix("fieldcache_request_total{"));
        let label = |line: &str, name: &str| {
            let (_, after) = line.split_once(&format!("{name}=\""))?;
            Some(after.split('"').next()?.to_owned())
        };
        requests
            .map(|line| {
                let verb = label(line, "verb").context("a verb")?;
                Ok(format!("{verb} {}", label(line, "resource").context("a resource")?))
            })
            .collect()
    }
}

/// Without what differs between moments and stores: versions and ages.
fn settled(text: &str) -> String {
    let is_of_copy = |line: &&str| {
        let line = line.trim().trim_end_matches(',').replace('"', "");
        let number = |text: &str| text.parse::<u64>().is_ok();
        let is_member = ["nodes", "pods", "namespaces", "ageSeconds"];
        line.starts_with("Evaluated at the resourceVersions: nodes ")
            || line.split_once(": ").is_some_and(|(member, value)| is_member.contains(&member) && number(value))
    };
    text.lines().filter(|line| !is_of_copy(line)).map(|line| format!("{line}\n")).collect()
}

/// Runs both, and returns what they print.
async fn same(shell: &Shell, question: &str, server: &str, folder: &str) -> Result<Finished> {
    let placement = repository("manifests/placement");
    let question = question.replace("IN/", &format!("{placement}/"));
    let requested = shell.run(&format!("fieldcache place {question} --server {server}")).await?;
    let read = shell.run(&format!("fieldcache place {question} --dir {folder}")).await?;
    ensure!(requested.exit_code == read.exit_code, "{question}: {requested:?}\nbut\n{read:?}");
    ensure!(
        settled(&requested.stdout) == settled(&read.stdout),
        "{question}:\n{}but\n{}",
        requested.stdout,
        read.stdout
    );
    ensure!(requested.stderr == read.stderr, "{question}:\n{}but\n{}", requested.stderr, read.stderr);
    Ok(requested)
}

fn shell() -> Result<Shell> {
    Shell::with_kubeconfig(&json!({ "apiVersion": "v1", "kind": "Config" }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_a_folder_reports_the_folder_without_a_list() -> Result<()> {
    let shell = shell()?;
    shell.succeed(WRITTEN).await?;
    for (scenario, questions) in [
        (
            "disktype",
            &[
                "-f IN/disktype/pod.yaml",
                "-f IN/disktype/pod.yaml --label node-1:disktype=ssd",
                "pod/nginx",
                "pod/nginx --node node-3",
                "-f IN/review.yaml",
                "-f misspelt.yaml",
                "-f misspelt.yaml --node node-1",
                "-f refused.yaml",
                "pod/none",
                "pod/nginx -n other",
                "pod/nginx --label node-9:a=b",
                "-f IN/disktype/pod.yaml --label node-9:a=b",
                "-f sandboxed.yaml --node node-1 --taint node-1=a:NoExecute",
            ][..],
        ),
        ("zones", &["-f IN/zones/pod.yaml", "-f IN/zones/pod.yaml --node az3-plain"]),
        (
            "pod-affinity",
            &[
                "-f IN/pod-affinity/pod.yaml",
                "-f IN/pod-affinity/required-by-zone.yaml",
                "-f IN/pod-affinity/required-by-zone.yaml --without-pod default/shop-window",
            ],
        ),
        (
            "taints",
            &[
                "-f IN/taints/pod.yaml --node node1",
                "pod/tolerates-two --node node1",
                "-f IN/taints/both.yaml --taint node2=key=value:NoSchedule",
                "-f IN/taints/both.yaml --node node2 --taint node2=key=value:NoSchedule",
            ],
        ),
        (
            "rolling-upgrade",
            &[
                "-f IN/rolling-upgrade/plain.yaml",
                "-f IN/rolling-upgrade/with-keys.yaml",
                "-f IN/rolling-upgrade/application-server.yaml",
            ],
        ),
        ("tenants", &["-f IN/tenants/pods.yaml", "-f IN/tenants/as-printed.yaml"]),
    ] {
        let folder = repository(&format!("manifests/placement/{scenario}"));
        let server = Server::start(&["--dir", &folder]).await?;
        let address = server.fieldcache.address();
        for question in questions {
            for form in FORMS {
                let reported = same(&shell, &format!("{question} {form}"), address, &folder).await?;
                let is_misspelt = question.starts_with("-f misspelt") && !form.contains("yaml");
                let warnings =
                    reported.stdout.matches("unknown field").count() + reported.stderr.matches("unknown field").count();
                ensure!(!is_misspelt || warnings == 1, "{question}: once: {reported:?}");
            }
        }
        let requested = server.requested().await?;
        let expected = ["POST placementreviews", "GET nodes", "GET pods", "GET runtimeclasses"];
        ensure!(requested.contains(expected[0]), "{requested:?}");
        ensure!(
            requested.iter().all(|one| expected.contains(&&**one) || one.ends_with(' ')),
            "{scenario}: {requested:?}"
        );

        // Names of some nodes are worth a short list, once it is known that one is missing.
        same(&shell, "-f misspelt.yaml --node node-9", address, &folder).await?;
        ensure!(!server.requested().await?.contains("LIST pods"));
        // What no review can carry is read, and that would be seen here.
        same(&shell, "--misplaced", address, &folder).await?;
        same(&shell, "-f misspelt.yaml --target-version 1.33", address, &folder).await?;
        let requested = server.requested().await?;
        ensure!(requested.iter().any(|one| one == "LIST pods" || one == "WATCH pods"), "{requested:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_a_cluster_reports_its_dump_without_a_list() -> Result<()> {
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let base = control_plane.endpoint().base();
    let shell = Shell::with_kubeconfig(&control_plane.kubeconfig_for(base))?;
    shell.succeed(WRITTEN).await?;
    let placement = repository("manifests/placement");
    let fill = r#"
set -e
for scenario in disktype zones pod-affinity taints; do
  for file in cluster.yaml nodes.yaml; do
    if test -e PLACEMENT/$scenario/$file; then kubectl apply --server-side -f PLACEMENT/$scenario/$file; fi
  done
done
kubectl create -f PLACEMENT/disktype/pod.yaml
kubectl create -f - <<END
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: sandbox}
handler: sandbox
scheduling: {tolerations: [{key: sandbox, operator: Exists}]}
END
mkdir dump
kubectl get nodes,pods,namespaces,runtimeclasses -A -o yaml > dump/all.yaml
"#;
    shell.succeed(&fill.replace("PLACEMENT", &placement)).await?;
    let folder = shell.home().path().join("dump").display().to_string();
    let kubeconfig = control_plane.kubeconfig().display().to_string();
    let server = Server::start(&["--kubeconfig", &kubeconfig]).await?;
    let address = server.fieldcache.address();
    for question in [
        "-f IN/disktype/pod.yaml --label node-1:disktype=ssd",
        "pod/nginx --node node-3",
        "-f IN/zones/pod.yaml",
        "-f IN/pod-affinity/required-by-zone.yaml --without-pod default/shop-window",
        "-f IN/taints/pod.yaml --node node1",
        "pod/tolerates-two --node node1",
        "-f IN/taints/both.yaml --taint node2=key=value:NoSchedule",
        "-f IN/rolling-upgrade/with-keys.yaml",
        "-f IN/rolling-upgrade/application-server.yaml",
        "-f IN/tenants/pods.yaml",
        "-f sandboxed.yaml --node node1 --taint node1=sandbox=a:NoSchedule",
        "-f misspelt.yaml",
        "-f refused.yaml",
        "pod/none",
    ] {
        for form in FORMS {
            same(&shell, &format!("{question} {form}"), address, &folder).await?;
        }
    }
    let sandboxed = "-f sandboxed.yaml --node node1 --taint node1=sandbox=a:NoSchedule";
    let reported = same(&shell, sandboxed, address, &folder).await?;
    ensure!(
        reported.stdout.contains("sandbox=a:NoSchedule: tolerated by the toleration sandbox Exists"),
        "{reported:?}"
    );
    let requested = server.requested().await?;
    let expected = ["POST placementreviews", "GET nodes", "GET pods", "GET runtimeclasses"];
    ensure!(expected.iter().all(|one| requested.contains(*one)), "{requested:?}");
    ensure!(requested.iter().all(|one| expected.contains(&&**one) || one.ends_with(' ')), "{requested:?}");

    // The API server itself, which is no fieldcache: users with permission learn that, others both possible causes.
    let missing =
        "is not a fieldcache server, or is too old for placement reviews: give the URL of another server with --server";
    shell.fail(&format!("fieldcache place pod/nginx --server {base} --kubeconfig {kubeconfig}"), 2, &[missing]).await?;
    let (_, nobody) = control_plane.as_user("mallory", None)?;
    let path = shell.home().write("mallory", nobody.to_string())?.display().to_string();
    shell.fail(&format!("fieldcache place pod/nginx --server {base} --kubeconfig {path}"), 2, &[missing]).await?;
    let stranger = e2e::control_plane::kubeconfig(base, Some(&control_plane.authority().certificate()), None);
    let path = shell.home().write("stranger", stranger.to_string())?.display().to_string();
    let refused =
        ["cannot create resource \"placementreviews\"", "; grant create on placementreviews.view.fieldcache.dev"];
    shell.fail(&format!("fieldcache place pod/nginx --server {base} --kubeconfig {path}"), 2, &refused).await?;

    // A fieldcache that is gone.
    server.fieldcache.stop().await?;
    let gone = format!("cluster {address} cannot be reached: ");
    shell.fail(&format!("fieldcache place pod/nginx --server {address}"), 2, &[&gone, "Connection refused"]).await?;
    Ok(())
}

#[test]
fn versions_and_ages_alone_are_settled() {
    let text = "a\nEvaluated at the resourceVersions: nodes 1, pods 2, namespaces 3.\n  \"nodes\": \"12\",\n  \"nodes\": [\n    pods: '7'\n    pods: 7\n  ageSeconds: 2\n  feasible: 2\n";
    assert_eq!(settled(text), "a\n  \"nodes\": [\n    pods: '7'\n  feasible: 2\n");
    assert_eq!(settled("x"), "x\n");
}
