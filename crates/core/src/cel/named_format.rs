//! The formats that Kubernetes names, such as `format.dns1123Label()` (apiserver `pkg/cel/library/format.go`).

use crate::schema::format;
use crate::selector::syntax::{
    dns_1035_label_errors, dns_label_errors, dns_subdomain_errors, label_key_errors, label_value_errors,
};

use super::url::Url;

/// A named format.
#[derive(Clone, Copy)]
pub(super) struct NamedFormat {
    pub(super) name: &'static str,
    /// Returns the messages about a text that does not have the format; none for a text that has it.
    errors: fn(&str) -> Vec<String>,
}

impl std::fmt::Debug for NamedFormat {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

/// All formats.
const FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "dns1123Label", errors: dns_label_errors },
    NamedFormat { name: "dns1123Subdomain", errors: dns_subdomain_errors },
    NamedFormat { name: "dns1035Label", errors: dns_1035_label_errors },
    NamedFormat { name: "qualifiedName", errors: label_key_errors },
    NamedFormat { name: "dns1123LabelPrefix", errors: |text| dns_label_errors(&of_prefix(text)) },
    NamedFormat { name: "dns1123SubdomainPrefix", errors: |text| dns_subdomain_errors(&of_prefix(text)) },
    NamedFormat { name: "dns1035LabelPrefix", errors: |text| dns_1035_label_errors(&of_prefix(text)) },
    NamedFormat { name: "labelValue", errors: label_value_errors },
    NamedFormat {
        name: "uri",
        errors: |text| unless(Url::is_url(text), if text.is_empty() { "empty url" } else { "invalid URI" }),
    },
    NamedFormat {
        name: "uuid",
        errors: |text| unless(format::matches("uuid", text), "does not match the UUID format"),
    },
    NamedFormat { name: "byte", errors: |text| unless(format::matches("byte", text), "invalid base64") },
    NamedFormat { name: "date", errors: |text| unless(format::matches("date", text), "invalid date") },
    NamedFormat { name: "datetime", errors: |text| unless(format::matches("date-time", text), "invalid datetime") },
];

impl NamedFormat {
    /// The format of a name; `None` if there is none.
    pub(super) fn find(name: &str) -> Option<NamedFormat> {
        FORMATS.into_iter().find(|format| format.name == name)
    }

    /// The messages about a text; none if it has the format.
    pub(super) fn errors(self, text: &str) -> Vec<String> {
        (self.errors)(text)
    }
}

/// No message if a text is valid; otherwise this one.
fn unless(is_valid: bool, message: &str) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![message.to_owned()] }
}

/// A whole name to check instead of a prefix of names, such as `generateName`, which may end with a hyphen. As upstream
/// (apimachinery, `maskTrailingDash`), a hyphen at the end and the character before it are replaced by `a`.
fn of_prefix(text: &str) -> String {
    let rest = text.strip_suffix('-').filter(|rest| !rest.is_empty());
    match rest.and_then(|rest| rest.get(..rest.len() - 1)) {
        Some(rest) => format!("{rest}a"),
        None => text.to_owned(),
    }
}
