//! The names of the API groups of fieldcache itself. The attributes of derived kinds repeat them, because the macro
//! accepts only literals; the tests of `kinds` compare both.

/// The group of the kinds that an API server stores: FieldCache, View, SelectableResource.
pub const GROUP: &str = "fieldcache.dev";

/// The version of all groups.
pub const VERSION: &str = "v1alpha1";

/// The group that fieldcache serves itself, not an API server: the paths of Views, and PlacementReviews.
pub const VIEW_GROUP: &str = "view.fieldcache.dev";

/// [`VIEW_GROUP`] with its version.
pub const VIEW_API_VERSION: &str = "view.fieldcache.dev/v1alpha1";
