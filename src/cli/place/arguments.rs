//! The options of `fieldcache place`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::shared_arguments::{OutputFormat, SourceArguments};
use crate::placement::Taint;
use crate::placement::review::{NodeLabel, NodeTaint, PodReference};
use crate::selector::syntax::{label_key_errors, label_value_errors};

/// `fieldcache place`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The command applies kube-scheduler's rules for cordoned nodes, nodeName, taints, nodeSelector, node affinity, and affinity and anti-affinity between Pods in both directions. A Pod or workload from a file first gets the defaults of the API server (default tolerations, matchLabelKeys). Free resources, ports, volumes and topology spread are not evaluated.

With --server, a fieldcache server evaluates a PlacementReview for each Pod, and the command reads no lists. Otherwise the command reads all nodes, Pods and namespaces, from a cluster or a folder. With these options, it also reads them from the server of --server: --misplaced, --uses-match-label-keys, --scheduler-config, --limit-hard-anti-affinity-topology, --toleration-comparison, --target-version.

To evaluate a dump of a cluster, use its folder with --dir: kubectl get nodes,pods,namespaces -A -o yaml > dump/all.yaml

Examples:
  fieldcache place -f pod.yaml --dir manifests/placement/disktype
  fieldcache place pod/web-1 -n team-a
  fieldcache place -f deployment.yaml --node node-3
  fieldcache place pod/web-1 --server http://127.0.0.1:8181
  fieldcache place -f pod.yaml --taint node1=dedicated=gpu:NoSchedule --label node2:disktype=ssd --without-pod team-a/old
  fieldcache place --misplaced --node node-3
  fieldcache place --uses-match-label-keys

Exit code: 0 when the Pod fits a node (with --node: that node), 1 when it does not, 2 for an error. With --misplaced: 1 when a Pod could not be placed again or is evicted.",
    group = clap::ArgGroup::new("what").required(true).args(["pod", "file", "misplaced", "uses_match_label_keys"])
)]
pub struct PlaceArguments {
    /// A Pod that exists, as pod/NAME: why is it pending?
    #[arg(value_name = "pod/NAME", value_parser = pod_name)]
    pub pod: Option<String>,
    /// A file with Pods or workloads, YAML or JSON; - reads standard input. Of a workload, the next Pod is placed
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The namespace of pod/NAME, and of a manifest without one. Default: the namespace of the kubeconfig if neither
    /// --server nor --dir is given, otherwise `default`
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Explain the result for this node only
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Show the Pods that could not be placed again on their nodes, and the Pods that NoExecute taints evict, with the
    /// time of the eviction
    #[arg(long, conflicts_with = "namespace")]
    pub misplaced: bool,
    /// Show the Pods that use matchLabelKeys or mismatchLabelKeys, with the derived requirements
    #[arg(long, conflicts_with_all = ["namespace", "node"])]
    pub uses_match_label_keys: bool,
    /// What if this node had this taint: NODE=KEY=VALUE:EFFECT, or NODE=KEY:EFFECT; repeatable
    #[arg(long = "taint", value_name = "NODE=TAINT", value_parser = node_taint, conflicts_with_all = ["misplaced", "uses_match_label_keys"])]
    pub taints: Vec<NodeTaint>,
    /// What if this node had this label: NODE:KEY=VALUE; repeatable
    #[arg(long = "label", value_name = "NODE:LABEL", value_parser = node_label, conflicts_with_all = ["misplaced", "uses_match_label_keys"])]
    pub labels: Vec<NodeLabel>,
    /// What if this Pod did not exist: NAMESPACE/NAME; repeatable
    #[arg(long = "without-pod", value_name = "NAMESPACE/NAME", value_parser = pod_reference, conflicts_with_all = ["misplaced", "uses_match_label_keys"])]
    pub without_pods: Vec<PodReference>,
    /// The configuration file of the scheduler (KubeSchedulerConfiguration): plugins, weights, added affinity
    #[arg(long, value_name = "FILE")]
    pub scheduler_config: Option<PathBuf>,
    /// Assume that the API server runs the admission plugin LimitPodHardAntiAffinityTopology, which permits required
    /// anti-affinity only with the topology key kubernetes.io/hostname
    #[arg(long)]
    pub limit_hard_anti_affinity_topology: bool,
    /// Assume that the feature gate TaintTolerationComparisonOperators is on, which permits Gt and Lt in tolerations
    #[arg(long)]
    pub toleration_comparison: bool,
    /// Use the rules of this version of Kubernetes, such as 1.33; default: the cluster's version
    #[arg(long, value_name = "VERSION", value_parser = minor_version)]
    pub target_version: Option<u32>,
    /// What to read.
    #[command(flatten)]
    pub source: SourceArguments,
    /// The output format. json and yaml print a PlacementReview, wide adds all reasons and scores, and name prints the
    /// nodes that fit
    #[arg(short, long, default_value = "table")]
    pub output: OutputFormat,
}

/// Parses `pod/NAME` (or `pods/NAME`, `po/NAME`), and returns the name.
fn pod_name(text: &str) -> Result<String, String> {
    let name = ["pod/", "pods/", "po/"].iter().find_map(|kind| text.strip_prefix(kind));
    match name {
        Some(name) if !name.is_empty() && !name.contains('/') => Ok(name.to_owned()),
        _ => Err("write pod/NAME, or -f FILE for an object that does not exist yet".to_owned()),
    }
}

/// Parses `NODE=KEY=VALUE:EFFECT` or `NODE=KEY:EFFECT`.
fn node_taint(text: &str) -> Result<NodeTaint, String> {
    let refused =
        || "write NODE=KEY=VALUE:EFFECT or NODE=KEY:EFFECT, such as node1=dedicated=gpu:NoSchedule".to_owned();
    let (node, taint) = text.split_once('=').filter(|(node, _)| !node.is_empty()).ok_or_else(refused)?;
    let taint: Taint = taint.parse().map_err(|error| format!("{error}"))?;
    Ok(NodeTaint { node: node.to_owned(), key: taint.key, value: taint.value, effect: taint.effect })
}

/// Parses `NODE:KEY=VALUE`.
fn node_label(text: &str) -> Result<NodeLabel, String> {
    let refused = || "write NODE:KEY=VALUE, such as node1:disktype=ssd".to_owned();
    let (node, label) = text.split_once(':').filter(|(node, _)| !node.is_empty()).ok_or_else(refused)?;
    let (key, value) = label.split_once('=').ok_or_else(refused)?;
    let errors = label_key_errors(key).into_iter().chain(label_value_errors(value));
    match errors.into_iter().next() {
        Some(error) => Err(format!("{label} is not a label: {error}")),
        None => Ok(NodeLabel { node: node.to_owned(), key: key.to_owned(), value: value.to_owned() }),
    }
}

/// Parses `NAMESPACE/NAME`.
fn pod_reference(text: &str) -> Result<PodReference, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(PodReference { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("write NAMESPACE/NAME, such as team-a/web-1".to_owned()),
    }
}

/// Parses a version of Kubernetes, such as `1.33` or `v1.33.2`; returns the minor version. The major version must be 1.
fn minor_version(text: &str) -> Result<u32, String> {
    let parts: Vec<&str> = text.trim_start_matches('v').split('.').collect();
    match parts[..] {
        ["1", minor] | ["1", minor, _] => {
            minor.parse().map_err(|_| "write a version of Kubernetes such as 1.33".to_owned())
        }
        _ => Err("write a version of Kubernetes such as 1.33".to_owned()),
    }
}
