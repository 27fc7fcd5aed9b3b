//! A KubeSchedulerConfiguration as options: which plugins run, with which weights and arguments.
//!
//! Read as `k8s.io/kube-scheduler/config/v1` defines it. Extension points, in order of precedence: the point itself,
//! then multiPoint, then the defaults. Only the parts that change a result here are read; the caller reads the file.

use serde::Deserialize;
use serde_json::Value;

use super::options::{Options, Plugin};
use super::pod::NodeAffinity;
use super::term::NodeTerm;

/// The scheduler that pods name if they name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The reason why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The document is of another kind.
    #[error("expected a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1, got {apiVersion:?} {kind:?}", apiVersion = .api_version)]
    OtherKind {
        /// The apiVersion of the document.
        api_version: String,
        /// The kind of the document.
        kind: String,
    },
    /// No profile has that scheduler's name.
    #[error("there is no profile with schedulerName {name:?}; there are: {}", .known.join(", "))]
    NoProfile {
        /// The requested scheduler.
        name: String,
        /// The names of the profiles.
        known: Vec<String>,
    },
    /// A part has an invalid form.
    #[error("{path}: {message}")]
    Invalid {
        /// The path of the argument.
        path: String,
        /// The error.
        message: String,
    },
}

/// The member of an object if it is a list; empty if it is missing or has another type.
fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value.get(member).and_then(Value::as_array).map_or(&[], |items| items)
}

/// The member of an object if it is a string; empty if it is missing or has another type.
fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// Applies the settings of a KubeSchedulerConfiguration's profile to `options`; settings that it does not state remain.
/// `scheduler_name` selects the profile. `None`: the profile of the default scheduler, or else the first one.
///
/// # Errors
/// The document is not a KubeSchedulerConfiguration, has no profile of that name, or an argument is invalid.
pub fn apply(document: &Value, scheduler_name: Option<&str>, mut options: Options) -> Result<Options, ConfigError> {
    let (api_version, kind) = (text(document, "apiVersion"), text(document, "kind"));
    if kind != "KubeSchedulerConfiguration" || !api_version.starts_with("kubescheduler.config.k8s.io/") {
        return Err(ConfigError::OtherKind { api_version: api_version.to_owned(), kind: kind.to_owned() });
    }
    let profiles = list(document, "profiles");
    let name_of = |profile: &Value| match text(profile, "schedulerName") {
        "" => DEFAULT_SCHEDULER.to_owned(),
        name => name.to_owned(),
    };
    let wanted = scheduler_name.unwrap_or(DEFAULT_SCHEDULER);
    let named = profiles.iter().position(|profile| name_of(profile) == wanted);
    let index = match (named, scheduler_name) {
        (Some(index), _) => index,
        (None, None) if profiles.is_empty() => return Ok(options),
        (None, None) => 0,
        (None, Some(name)) => {
            let known = profiles.iter().map(name_of).collect();
            return Err(ConfigError::NoProfile { name: name.to_owned(), known });
        }
    };
    let profile = &profiles[index];
    read_plugins(profile.get("plugins").unwrap_or(&Value::Null), &mut options);
    for (position, entry) in list(profile, "pluginConfig").iter().enumerate() {
        let path = format!("profiles[{index}].pluginConfig[{position}].args");
        read_arguments(text(entry, "name"), entry.get("args").unwrap_or(&Value::Null), &path, &mut options)?;
    }
    Ok(options)
}

/// The setting of one plugin at an extension point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PluginSetting {
    /// The configuration does not state it.
    Nothing,
    Disabled,
    /// With its weight; `None` if it has none or 0.
    Enabled(Option<i64>),
}

/// The setting of the plugin `name` in the `plugins` of a profile, at the extension point `point`.
fn setting_of(plugins: &Value, point: &str, name: &str) -> PluginSetting {
    let Some(set) = plugins.get(point) else { return PluginSetting::Nothing };
    // Enabling wins over disabling, so that a plugin can be disabled and enabled again with another weight.
    if let Some(entry) = list(set, "enabled").iter().find(|entry| text(entry, "name") == name) {
        let weight = entry.get("weight").and_then(Value::as_i64).filter(|weight| *weight != 0);
        return PluginSetting::Enabled(weight);
    }
    let is_disabled = |entry: &Value| matches!(text(entry, "name"), "*") || text(entry, "name") == name;
    if list(set, "disabled").iter().any(is_disabled) { PluginSetting::Disabled } else { PluginSetting::Nothing }
}

/// Reads from the `plugins` of a profile which plugins are enabled, and their weights.
fn read_plugins(plugins: &Value, options: &mut Options) {
    for plugin in Plugin::ALL {
        let multi_point = setting_of(plugins, "multiPoint", plugin.as_str());
        // Gates are checked before a pod enters the queue, all others for each node.
        let point = if plugin == Plugin::SchedulingGates { "preEnqueue" } else { "filter" };
        let runs = |point: &str| match (setting_of(plugins, point, plugin.as_str()), multi_point) {
            (PluginSetting::Enabled(_), _)
            | (PluginSetting::Nothing, PluginSetting::Enabled(_) | PluginSetting::Nothing) => true,
            (PluginSetting::Disabled, _) | (PluginSetting::Nothing, PluginSetting::Disabled) => false,
        };
        if !runs(point) && !options.disabled.contains(&plugin) {
            options.disabled.push(plugin);
        }
        let weight = match plugin {
            Plugin::TaintToleration => &mut options.weights.taint_toleration,
            Plugin::NodeAffinity => &mut options.weights.node_affinity,
            Plugin::InterPodAffinity => &mut options.weights.inter_pod_affinity,
            Plugin::SchedulingGates | Plugin::NodeUnschedulable | Plugin::NodeName => continue,
        };
        *weight = match (setting_of(plugins, "score", plugin.as_str()), multi_point) {
            // A plugin that is enabled without a weight counts once.
            (PluginSetting::Enabled(given), _) => given.unwrap_or(1),
            (PluginSetting::Disabled, _) | (PluginSetting::Nothing, PluginSetting::Disabled) => 0,
            (PluginSetting::Nothing, PluginSetting::Enabled(given)) => given.unwrap_or(1),
            (PluginSetting::Nothing, PluginSetting::Nothing) => *weight,
        };
    }
}

/// Reads the arguments of the plugin `name`; does nothing for plugins that are not evaluated. `path` is that of `args`,
/// for errors.
fn read_arguments(name: &str, args: &Value, path: &str, options: &mut Options) -> Result<(), ConfigError> {
    let invalid = |member: &str, message: String| ConfigError::Invalid { path: format!("{path}.{member}"), message };
    match name {
        "InterPodAffinity" => {
            if let Some(weight) = args.get("hardPodAffinityWeight").filter(|weight| !weight.is_null()) {
                let weight = weight.as_i64().filter(|weight| (0..=100).contains(weight));
                let refused = || invalid("hardPodAffinityWeight", "must be an integer from 0 to 100".to_owned());
                options.hard_pod_affinity_weight = weight.ok_or_else(refused)?;
            }
            if let Some(ignores) = args.get("ignorePreferredTermsOfExistingPods").and_then(Value::as_bool) {
                options.ignore_preferred_terms_of_existing_pods = ignores;
            }
        }
        "NodeAffinity" => {
            if let Some(added) = args.get("addedAffinity").filter(|added| !added.is_null()) {
                let added = NodeAffinity::deserialize(added);
                let added = added.map_err(|error| invalid("addedAffinity", error.to_string()))?;
                let required = added.required.iter().flat_map(|required| &required.node_selector_terms);
                let terms = required.chain(added.preferred.iter().map(|preferred| &preferred.preference));
                for term in terms {
                    // A scheduler with such a term does not start.
                    if let NodeTerm::Unparsable(error) = NodeTerm::new(term, "addedAffinity") {
                        return Err(invalid("addedAffinity", error.to_string()));
                    }
                }
                options.added_affinity = Some(added);
            }
        }
        _ => {}
    }
    Ok(())
}
