//! The schema of an enum of names.

/// Gives an enum of names the schema of a string with these values.
macro_rules! string_enum {
    ($name:ident, $values:expr) => {
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "enum": $values})
            }
        }
    };
}
pub(super) use string_enum;
