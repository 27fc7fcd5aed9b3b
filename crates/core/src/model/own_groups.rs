//! The names of the API groups of fieldcache itself. Attributes of derived kinds repeat them, because a macro reads only
//! literals; the tests of `kinds` compare both.

/// The group of the kinds that an API server stores: FieldCache, View, SelectableResource.
pub const GROUP: &str = "fieldcache.dev";

/// The version of all groups.
pub const VERSION: &str = "v1alpha1";

/// The group that fieldcache serves itself: Views as a path, and PlacementReviews.
pub const VIEW_GROUP: &str = "view.fieldcache.dev";

/// The group and version of what fieldcache serves itself.
pub const VIEW_API_VERSION: &str = "view.fieldcache.dev/v1alpha1";
