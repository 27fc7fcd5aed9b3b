//! A macro for the schemas of enums that are strings in objects.

/// Implements `JsonSchema` for an enum that is serialized as a string: the schema allows these values.
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
