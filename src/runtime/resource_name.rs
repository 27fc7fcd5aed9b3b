//! Resources by any name that kubectl accepts: plural, singular, kind or short name, with `.GROUP` or `.VERSION.GROUP`.

use crate::model::Gvr;
use crate::registry::Resource;
use crate::source::discovery::Discovered;

/// The names of a resource.
pub struct Names<'a> {
    gvr: &'a Gvr,
    kind: &'a str,
    singular: &'a str,
    short_names: &'a [String],
}

impl<'a> From<&'a Resource> for Names<'a> {
    fn from(resource: &'a Resource) -> Names<'a> {
        let Resource { gvr, kind, singular, short_names, .. } = resource;
        Names { gvr, kind, singular, short_names }
    }
}

impl<'a> From<&'a Discovered> for Names<'a> {
    fn from(resource: &'a Discovered) -> Names<'a> {
        let Discovered { gvr, kind, singular, short_names, .. } = resource;
        Names { gvr, kind, singular, short_names }
    }
}

impl Names<'_> {
    /// Whether `name` is one of these names, with or without the group, or the version and the group. Case is ignored.
    pub fn contain(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        self.contain_without_group(&name)
            || name.split_once('.').is_some_and(|(first, rest)| {
                let Gvr { group, version, .. } = self.gvr;
                // In the core group, the form with a version is the version alone.
                let is_its_group = rest == group || rest == format!("{version}.{group}").trim_end_matches('.');
                is_its_group && self.contain_without_group(first)
            })
    }

    /// Whether a name in lower case is the plural, the singular, the kind or a short name.
    fn contain_without_group(&self, name: &str) -> bool {
        self.gvr.resource == name
            || self.singular == name
            || self.kind.to_lowercase() == name
            || self.short_names.iter().any(|short| short == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_kubectl_takes_is_one() {
        let (gvr, pods) = (Gvr::new("e.com", "v1", "shirts"), Gvr::new("", "v1", "pods"));
        let shirts = Names { gvr: &gvr, kind: "Shirt", singular: "shirt", short_names: &["sh".to_owned()] };
        let pods = Names { gvr: &pods, kind: "Pod", singular: "pod", short_names: &["po".to_owned()] };
        for (name, is_shirts, is_pods) in [
            ("shirts", true, false),
            ("shirt", true, false),
            ("Shirt", true, false),
            ("SHIRTS", true, false),
            ("sh", true, false),
            ("shirts.e.com", true, false),
            ("shirts.v1.e.com", true, false),
            ("sh.e.com", true, false),
            ("shirts.v2.e.com", false, false),
            ("shirts.v1", false, false),
            ("shirts.com", false, false),
            ("pods", false, true),
            ("po", false, true),
            ("pods.v1", false, true),
            ("pods.v1.", false, false),
            ("pods.", false, true),
            ("", false, false),
            (".", false, false),
        ] {
            assert_eq!((shirts.contain(name), pods.contain(name)), (is_shirts, is_pods), "{name:?}");
        }
    }
}
