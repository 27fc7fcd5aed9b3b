//! Columns, and those that several kinds have.

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Header, such as `Ready`.
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`. Some columns have another type than they state: upstream declares a
    /// count as a string.
    pub kind: &'static str,
    /// `name` or empty.
    pub format: &'static str,
    /// Description.
    pub description: &'static str,
    /// 0 is shown always, 1 with `-o wide`.
    pub priority: u8,
}

impl Column {
    /// The column with a lower priority: it is only shown with `-o wide`.
    pub(super) const fn wide(self) -> Column {
        Column { priority: 1, ..self }
    }

    /// The column with the format of names of objects.
    pub(super) const fn of_names(self) -> Column {
        Column { format: "name", ..self }
    }
}

/// A column that is always shown; `kind` is the type of its cells.
pub(super) const fn column(name: &'static str, kind: &'static str, description: &'static str) -> Column {
    Column { name, kind, format: "", description, priority: 0 }
}

pub(super) const fn string(name: &'static str, description: &'static str) -> Column {
    column(name, "string", description)
}

pub(super) const fn integer(name: &'static str, description: &'static str) -> Column {
    column(name, "integer", description)
}

pub(super) const fn boolean(name: &'static str, description: &'static str) -> Column {
    column(name, "boolean", description)
}

/// metadata.name. Like that of [`AGE`], its description is the documentation of the field in ObjectMeta.
pub const NAME: Column = string(
    "Name",
    "Name must be unique within a namespace. Is required when creating resources, although some resources may \
         allow a client to request the generation of an appropriate name automatically. Name is primarily intended \
         for creation idempotence and configuration definition. Cannot be updated. More info: \
         https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)
.of_names();

const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
     guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
     represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The time since metadata.creationTimestamp.
pub const AGE: Column = string("Age", AGE_DESCRIPTION);

/// metadata.creationTimestamp itself.
pub(super) const CREATED_AT: Column = column("Created At", "date", AGE_DESCRIPTION);

pub(super) const CONTAINERS: Column = string("Containers", "Names of each container in the template.").wide();

pub(super) const IMAGES: Column = string("Images", "Images referenced by each container in the template.").wide();
