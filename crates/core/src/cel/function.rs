//! The functions that expressions can call: names, types of arguments and results.
//!
//! One table has a row for each overload. [`super::check`] finds the function of a call by its name and the known types
//! of its arguments. [`super::call`] evaluates the function by the values of its arguments.

use super::types::CelType;

/// A function. All overloads of one name are one function. [`TABLE`] has the names in expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    ToInt,
    ToUint,
    ToDouble,
    ToText,
    ToBytes,
    ToBool,
    ToTimestamp,
    ToDuration,
    TypeOf,
    Dyn,
    FullYear,
    Month,
    DayOfYear,
    DayOfMonth,
    Date,
    DayOfWeek,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
    CharAt,
    IndexOf,
    LastIndexOf,
    LowerAscii,
    UpperAscii,
    Replace,
    Split,
    Substring,
    Trim,
    Join,
    Quote,
    Find,
    FindAll,
    IsSorted,
    Sum,
    Min,
    Max,
    Includes,
    Slice,
    Flatten,
    Sort,
    Reverse,
    Distinct,
    Range,
    SetsContains,
    SetsEquivalent,
    SetsIntersects,
    OptionalOf,
    OptionalOfNonZero,
    OptionalNone,
    OptionalValue,
    OptionalHasValue,
    OptionalOr,
    OptionalOrValue,
    Quantity,
    IsQuantity,
    Sign,
    IsGreaterThan,
    IsLessThan,
    CompareTo,
    AsApproximateFloat,
    AsInteger,
    IsInteger,
    AddQuantity,
    SubtractQuantity,
    Ip,
    IsIp,
    IsCanonicalIp,
    Family,
    IsUnspecified,
    IsLoopback,
    IsLinkLocalMulticast,
    IsLinkLocalUnicast,
    IsGlobalUnicast,
    Cidr,
    IsCidr,
    ContainsIp,
    ContainsCidr,
    PrefixLength,
    Masked,
    First,
    Last,
    OptionalUnwrap,
    FormatText,
    Url,
    IsUrl,
    Scheme,
    Host,
    Hostname,
    Port,
    EscapedPath,
    UrlQuery,
    Semver,
    IsSemver,
    Major,
    Minor,
    Patch,
    /// `format.named(name)`: the format of a name that is an argument.
    FormatNamed,
    /// A function without arguments that returns the format of this name, such as `format.dns1123Label()`.
    FormatOf(&'static str),
    Validate,
}

/// A type of an argument or a result in [`TABLE`]. `A` is any type, the same one in all places of a row. `Ordered` and
/// `Summable` are like `A`, but only some types can take their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Any,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Time,
    Span,
    Type,
    Quantity,
    Ip,
    Cidr,
    Url,
    Semver,
    Format,
    QueryMap,
    OptionalTexts,
    OptionalFormat,
    ListOfOptionalsOfA,
    A,
    ListOfA,
    ListOfListsOfA,
    ListOfAny,
    ListOfText,
    ListOfInt,
    Map,
    OptionalOfA,
    /// A type with an order: a number, text, boolean, bytes, time or duration. Null and dynamic types count too.
    Ordered,
    ListOfOrdered,
    /// A number or a duration. Null and dynamic types count too.
    Summable,
    ListOfSummable,
}

/// An overload: the name, [`GLOBAL`] or [`METHOD`], the types of the arguments, the type of the result, and the
/// function. The target of a method is its first argument.
type Row = (&'static str, bool, &'static [Sort], Sort, Function);

/// Whether an overload is called on a target: `name(arguments)`, or `target.name(arguments)`.
const GLOBAL: bool = false;
const METHOD: bool = true;

/// All overloads.
const TABLE: &[Row] = {
    use Function as F;
    use Sort as S;
    &[
        ("size", GLOBAL, &[S::Text], S::Int, F::Size),
        ("size", GLOBAL, &[S::Bytes], S::Int, F::Size),
        ("size", GLOBAL, &[S::ListOfA], S::Int, F::Size),
        ("size", GLOBAL, &[S::Map], S::Int, F::Size),
        ("size", METHOD, &[S::Text], S::Int, F::Size),
        ("size", METHOD, &[S::Bytes], S::Int, F::Size),
        ("size", METHOD, &[S::ListOfA], S::Int, F::Size),
        ("size", METHOD, &[S::Map], S::Int, F::Size),
        ("contains", METHOD, &[S::Text, S::Text], S::Bool, F::Contains),
        ("startsWith", METHOD, &[S::Text, S::Text], S::Bool, F::StartsWith),
        ("endsWith", METHOD, &[S::Text, S::Text], S::Bool, F::EndsWith),
        ("matches", METHOD, &[S::Text, S::Text], S::Bool, F::Matches),
        ("matches", GLOBAL, &[S::Text, S::Text], S::Bool, F::Matches),
        ("int", GLOBAL, &[S::Int], S::Int, F::ToInt),
        ("int", GLOBAL, &[S::Uint], S::Int, F::ToInt),
        ("int", GLOBAL, &[S::Double], S::Int, F::ToInt),
        ("int", GLOBAL, &[S::Text], S::Int, F::ToInt),
        ("int", GLOBAL, &[S::Time], S::Int, F::ToInt),
        ("int", GLOBAL, &[S::Span], S::Int, F::ToInt),
        ("uint", GLOBAL, &[S::Int], S::Uint, F::ToUint),
        ("uint", GLOBAL, &[S::Uint], S::Uint, F::ToUint),
        ("uint", GLOBAL, &[S::Double], S::Uint, F::ToUint),
        ("uint", GLOBAL, &[S::Text], S::Uint, F::ToUint),
        ("double", GLOBAL, &[S::Int], S::Double, F::ToDouble),
        ("double", GLOBAL, &[S::Uint], S::Double, F::ToDouble),
        ("double", GLOBAL, &[S::Double], S::Double, F::ToDouble),
        ("double", GLOBAL, &[S::Text], S::Double, F::ToDouble),
        ("string", GLOBAL, &[S::Text], S::Text, F::ToText),
        ("string", GLOBAL, &[S::Bool], S::Text, F::ToText),
        ("string", GLOBAL, &[S::Int], S::Text, F::ToText),
        ("string", GLOBAL, &[S::Uint], S::Text, F::ToText),
        ("string", GLOBAL, &[S::Double], S::Text, F::ToText),
        ("string", GLOBAL, &[S::Bytes], S::Text, F::ToText),
        ("string", GLOBAL, &[S::Time], S::Text, F::ToText),
        ("string", GLOBAL, &[S::Span], S::Text, F::ToText),
        ("string", GLOBAL, &[S::Ip], S::Text, F::ToText),
        ("string", GLOBAL, &[S::Cidr], S::Text, F::ToText),
        ("bytes", GLOBAL, &[S::Bytes], S::Bytes, F::ToBytes),
        ("bytes", GLOBAL, &[S::Text], S::Bytes, F::ToBytes),
        ("bool", GLOBAL, &[S::Bool], S::Bool, F::ToBool),
        ("bool", GLOBAL, &[S::Text], S::Bool, F::ToBool),
        ("timestamp", GLOBAL, &[S::Text], S::Time, F::ToTimestamp),
        ("timestamp", GLOBAL, &[S::Int], S::Time, F::ToTimestamp),
        ("timestamp", GLOBAL, &[S::Time], S::Time, F::ToTimestamp),
        ("duration", GLOBAL, &[S::Text], S::Span, F::ToDuration),
        ("duration", GLOBAL, &[S::Span], S::Span, F::ToDuration),
        ("type", GLOBAL, &[S::A], S::Type, F::TypeOf),
        ("dyn", GLOBAL, &[S::A], S::Any, F::Dyn),
        ("getFullYear", METHOD, &[S::Time], S::Int, F::FullYear),
        ("getFullYear", METHOD, &[S::Time, S::Text], S::Int, F::FullYear),
        ("getMonth", METHOD, &[S::Time], S::Int, F::Month),
        ("getMonth", METHOD, &[S::Time, S::Text], S::Int, F::Month),
        ("getDayOfYear", METHOD, &[S::Time], S::Int, F::DayOfYear),
        ("getDayOfYear", METHOD, &[S::Time, S::Text], S::Int, F::DayOfYear),
        ("getDayOfMonth", METHOD, &[S::Time], S::Int, F::DayOfMonth),
        ("getDayOfMonth", METHOD, &[S::Time, S::Text], S::Int, F::DayOfMonth),
        ("getDate", METHOD, &[S::Time], S::Int, F::Date),
        ("getDate", METHOD, &[S::Time, S::Text], S::Int, F::Date),
        ("getDayOfWeek", METHOD, &[S::Time], S::Int, F::DayOfWeek),
        ("getDayOfWeek", METHOD, &[S::Time, S::Text], S::Int, F::DayOfWeek),
        ("getHours", METHOD, &[S::Time], S::Int, F::Hours),
        ("getHours", METHOD, &[S::Time, S::Text], S::Int, F::Hours),
        ("getHours", METHOD, &[S::Span], S::Int, F::Hours),
        ("getMinutes", METHOD, &[S::Time], S::Int, F::Minutes),
        ("getMinutes", METHOD, &[S::Time, S::Text], S::Int, F::Minutes),
        ("getMinutes", METHOD, &[S::Span], S::Int, F::Minutes),
        ("getSeconds", METHOD, &[S::Time], S::Int, F::Seconds),
        ("getSeconds", METHOD, &[S::Time, S::Text], S::Int, F::Seconds),
        ("getSeconds", METHOD, &[S::Span], S::Int, F::Seconds),
        ("getMilliseconds", METHOD, &[S::Time], S::Int, F::Milliseconds),
        ("getMilliseconds", METHOD, &[S::Time, S::Text], S::Int, F::Milliseconds),
        ("getMilliseconds", METHOD, &[S::Span], S::Int, F::Milliseconds),
        ("charAt", METHOD, &[S::Text, S::Int], S::Text, F::CharAt),
        ("indexOf", METHOD, &[S::Text, S::Text], S::Int, F::IndexOf),
        ("indexOf", METHOD, &[S::Text, S::Text, S::Int], S::Int, F::IndexOf),
        ("indexOf", METHOD, &[S::ListOfA, S::A], S::Int, F::IndexOf),
        ("lastIndexOf", METHOD, &[S::Text, S::Text], S::Int, F::LastIndexOf),
        ("lastIndexOf", METHOD, &[S::Text, S::Text, S::Int], S::Int, F::LastIndexOf),
        ("lastIndexOf", METHOD, &[S::ListOfA, S::A], S::Int, F::LastIndexOf),
        ("lowerAscii", METHOD, &[S::Text], S::Text, F::LowerAscii),
        ("upperAscii", METHOD, &[S::Text], S::Text, F::UpperAscii),
        ("replace", METHOD, &[S::Text, S::Text, S::Text], S::Text, F::Replace),
        ("replace", METHOD, &[S::Text, S::Text, S::Text, S::Int], S::Text, F::Replace),
        ("split", METHOD, &[S::Text, S::Text], S::ListOfText, F::Split),
        ("split", METHOD, &[S::Text, S::Text, S::Int], S::ListOfText, F::Split),
        ("substring", METHOD, &[S::Text, S::Int], S::Text, F::Substring),
        ("substring", METHOD, &[S::Text, S::Int, S::Int], S::Text, F::Substring),
        ("trim", METHOD, &[S::Text], S::Text, F::Trim),
        ("join", METHOD, &[S::ListOfText], S::Text, F::Join),
        ("join", METHOD, &[S::ListOfText, S::Text], S::Text, F::Join),
        ("strings.quote", GLOBAL, &[S::Text], S::Text, F::Quote),
        ("find", METHOD, &[S::Text, S::Text], S::Text, F::Find),
        ("findAll", METHOD, &[S::Text, S::Text], S::ListOfText, F::FindAll),
        ("findAll", METHOD, &[S::Text, S::Text, S::Int], S::ListOfText, F::FindAll),
        ("isSorted", METHOD, &[S::ListOfOrdered], S::Bool, F::IsSorted),
        ("sum", METHOD, &[S::ListOfSummable], S::Summable, F::Sum),
        ("min", METHOD, &[S::ListOfOrdered], S::Ordered, F::Min),
        ("max", METHOD, &[S::ListOfOrdered], S::Ordered, F::Max),
        ("includes", METHOD, &[S::Any, S::Any], S::Bool, F::Includes),
        ("slice", METHOD, &[S::ListOfA, S::Int, S::Int], S::ListOfA, F::Slice),
        ("flatten", METHOD, &[S::ListOfListsOfA], S::ListOfA, F::Flatten),
        ("flatten", METHOD, &[S::ListOfA, S::Int], S::ListOfAny, F::Flatten),
        ("sort", METHOD, &[S::ListOfOrdered], S::ListOfOrdered, F::Sort),
        ("reverse", METHOD, &[S::ListOfA], S::ListOfA, F::Reverse),
        ("distinct", METHOD, &[S::ListOfA], S::ListOfA, F::Distinct),
        ("lists.range", GLOBAL, &[S::Int], S::ListOfInt, F::Range),
        ("sets.contains", GLOBAL, &[S::ListOfA, S::ListOfA], S::Bool, F::SetsContains),
        ("sets.equivalent", GLOBAL, &[S::ListOfA, S::ListOfA], S::Bool, F::SetsEquivalent),
        ("sets.intersects", GLOBAL, &[S::ListOfA, S::ListOfA], S::Bool, F::SetsIntersects),
        ("optional.of", GLOBAL, &[S::A], S::OptionalOfA, F::OptionalOf),
        ("optional.ofNonZeroValue", GLOBAL, &[S::A], S::OptionalOfA, F::OptionalOfNonZero),
        ("optional.none", GLOBAL, &[], S::OptionalOfA, F::OptionalNone),
        ("value", METHOD, &[S::OptionalOfA], S::A, F::OptionalValue),
        ("hasValue", METHOD, &[S::OptionalOfA], S::Bool, F::OptionalHasValue),
        ("or", METHOD, &[S::OptionalOfA, S::OptionalOfA], S::OptionalOfA, F::OptionalOr),
        ("orValue", METHOD, &[S::OptionalOfA, S::A], S::A, F::OptionalOrValue),
        ("quantity", GLOBAL, &[S::Text], S::Quantity, F::Quantity),
        ("isQuantity", GLOBAL, &[S::Text], S::Bool, F::IsQuantity),
        ("sign", GLOBAL, &[S::Quantity], S::Int, F::Sign),
        ("isGreaterThan", METHOD, &[S::Quantity, S::Quantity], S::Bool, F::IsGreaterThan),
        ("isLessThan", METHOD, &[S::Quantity, S::Quantity], S::Bool, F::IsLessThan),
        ("compareTo", METHOD, &[S::Quantity, S::Quantity], S::Int, F::CompareTo),
        ("asApproximateFloat", METHOD, &[S::Quantity], S::Double, F::AsApproximateFloat),
        ("asInteger", METHOD, &[S::Quantity], S::Int, F::AsInteger),
        ("isInteger", METHOD, &[S::Quantity], S::Bool, F::IsInteger),
        ("add", METHOD, &[S::Quantity, S::Quantity], S::Quantity, F::AddQuantity),
        ("add", METHOD, &[S::Quantity, S::Int], S::Quantity, F::AddQuantity),
        ("sub", METHOD, &[S::Quantity, S::Quantity], S::Quantity, F::SubtractQuantity),
        ("sub", METHOD, &[S::Quantity, S::Int], S::Quantity, F::SubtractQuantity),
        ("ip", GLOBAL, &[S::Text], S::Ip, F::Ip),
        ("ip", METHOD, &[S::Cidr], S::Ip, F::Ip),
        ("isIP", GLOBAL, &[S::Text], S::Bool, F::IsIp),
        ("ip.isCanonical", GLOBAL, &[S::Text], S::Bool, F::IsCanonicalIp),
        ("family", METHOD, &[S::Ip], S::Int, F::Family),
        ("isUnspecified", METHOD, &[S::Ip], S::Bool, F::IsUnspecified),
        ("isLoopback", METHOD, &[S::Ip], S::Bool, F::IsLoopback),
        ("isLinkLocalMulticast", METHOD, &[S::Ip], S::Bool, F::IsLinkLocalMulticast),
        ("isLinkLocalUnicast", METHOD, &[S::Ip], S::Bool, F::IsLinkLocalUnicast),
        ("isGlobalUnicast", METHOD, &[S::Ip], S::Bool, F::IsGlobalUnicast),
        ("cidr", GLOBAL, &[S::Text], S::Cidr, F::Cidr),
        ("isCIDR", GLOBAL, &[S::Text], S::Bool, F::IsCidr),
        ("containsIP", METHOD, &[S::Cidr, S::Ip], S::Bool, F::ContainsIp),
        ("containsIP", METHOD, &[S::Cidr, S::Text], S::Bool, F::ContainsIp),
        ("containsCIDR", METHOD, &[S::Cidr, S::Cidr], S::Bool, F::ContainsCidr),
        ("containsCIDR", METHOD, &[S::Cidr, S::Text], S::Bool, F::ContainsCidr),
        ("prefixLength", METHOD, &[S::Cidr], S::Int, F::PrefixLength),
        ("masked", METHOD, &[S::Cidr], S::Cidr, F::Masked),
        ("first", METHOD, &[S::ListOfA], S::OptionalOfA, F::First),
        ("last", METHOD, &[S::ListOfA], S::OptionalOfA, F::Last),
        ("optional.unwrap", GLOBAL, &[S::ListOfOptionalsOfA], S::ListOfA, F::OptionalUnwrap),
        ("unwrapOpt", METHOD, &[S::ListOfOptionalsOfA], S::ListOfA, F::OptionalUnwrap),
        ("format", METHOD, &[S::Text, S::ListOfAny], S::Text, F::FormatText),
        ("url", GLOBAL, &[S::Text], S::Url, F::Url),
        ("isURL", GLOBAL, &[S::Text], S::Bool, F::IsUrl),
        ("getScheme", METHOD, &[S::Url], S::Text, F::Scheme),
        ("getHost", METHOD, &[S::Url], S::Text, F::Host),
        ("getHostname", METHOD, &[S::Url], S::Text, F::Hostname),
        ("getPort", METHOD, &[S::Url], S::Text, F::Port),
        ("getEscapedPath", METHOD, &[S::Url], S::Text, F::EscapedPath),
        ("getQuery", METHOD, &[S::Url], S::QueryMap, F::UrlQuery),
        ("semver", GLOBAL, &[S::Text], S::Semver, F::Semver),
        ("semver", GLOBAL, &[S::Text, S::Bool], S::Semver, F::Semver),
        ("isSemver", GLOBAL, &[S::Text], S::Bool, F::IsSemver),
        ("isSemver", GLOBAL, &[S::Text, S::Bool], S::Bool, F::IsSemver),
        ("isGreaterThan", METHOD, &[S::Semver, S::Semver], S::Bool, F::IsGreaterThan),
        ("isLessThan", METHOD, &[S::Semver, S::Semver], S::Bool, F::IsLessThan),
        ("compareTo", METHOD, &[S::Semver, S::Semver], S::Int, F::CompareTo),
        ("major", METHOD, &[S::Semver], S::Int, F::Major),
        ("minor", METHOD, &[S::Semver], S::Int, F::Minor),
        ("patch", METHOD, &[S::Semver], S::Int, F::Patch),
        ("format.named", GLOBAL, &[S::Text], S::OptionalFormat, F::FormatNamed),
        ("format.dns1123Label", GLOBAL, &[], S::Format, F::FormatOf("dns1123Label")),
        ("format.dns1123Subdomain", GLOBAL, &[], S::Format, F::FormatOf("dns1123Subdomain")),
        ("format.dns1035Label", GLOBAL, &[], S::Format, F::FormatOf("dns1035Label")),
        ("format.qualifiedName", GLOBAL, &[], S::Format, F::FormatOf("qualifiedName")),
        ("format.dns1123LabelPrefix", GLOBAL, &[], S::Format, F::FormatOf("dns1123LabelPrefix")),
        ("format.dns1123SubdomainPrefix", GLOBAL, &[], S::Format, F::FormatOf("dns1123SubdomainPrefix")),
        ("format.dns1035LabelPrefix", GLOBAL, &[], S::Format, F::FormatOf("dns1035LabelPrefix")),
        ("format.labelValue", GLOBAL, &[], S::Format, F::FormatOf("labelValue")),
        ("format.uri", GLOBAL, &[], S::Format, F::FormatOf("uri")),
        ("format.uuid", GLOBAL, &[], S::Format, F::FormatOf("uuid")),
        ("format.byte", GLOBAL, &[], S::Format, F::FormatOf("byte")),
        ("format.date", GLOBAL, &[], S::Format, F::FormatOf("date")),
        ("format.datetime", GLOBAL, &[], S::Format, F::FormatOf("datetime")),
        ("validate", METHOD, &[S::Format, S::Text], S::OptionalTexts, F::Validate),
    ]
};

/// Why a call has no overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoOverload {
    /// No function has that name.
    Unknown,
    /// Functions with that name have other arguments.
    Mismatch,
}

/// Whether there is a global function of this name.
pub(super) fn is_global(name: &str) -> bool {
    TABLE.iter().any(|(found, is_method, ..)| *found == name && *is_method == GLOBAL)
}

/// The function of a name for arguments of these types, and the type of its result. The target of a method is the first
/// argument. Several overloads can fit, because a type is dynamic. Then the function is that of the first overload, and
/// the result is dynamic if the functions or the results differ.
///
/// # Errors
/// No overload fits.
pub(super) fn resolve(name: &str, is_method: bool, types: &[&CelType]) -> Result<(Function, CelType), NoOverload> {
    let mut is_known = false;
    let mut found: Option<(Function, CelType)> = None;
    for (row_name, row_is_method, parameters, result, function) in TABLE {
        if *row_name != name {
            continue;
        }
        is_known = true;
        if *row_is_method != is_method || parameters.len() != types.len() {
            continue;
        }
        let mut bound = None;
        if !parameters.iter().zip(types).all(|(sort, found)| fits(*sort, found, &mut bound)) {
            continue;
        }
        let result = type_of(*result, bound);
        found = Some(match found {
            Some((before, _)) if before != *function => (before, CelType::Dyn),
            Some((before, joined)) => (before, if joined == result { joined } else { CelType::Dyn }),
            None => (*function, result),
        });
    }
    found.ok_or(if is_known { NoOverload::Mismatch } else { NoOverload::Unknown })
}

/// Whether an argument of the type `found` fits a type of the table. `bound` is the type that `A` has by the arguments
/// before (`None`: none of them had an `A`). If the argument has an `A`, `bound` becomes the common type.
fn fits(sort: Sort, found: &CelType, bound: &mut Option<CelType>) -> bool {
    // Whether `A` can have this type too.
    let mut binds = |found: &CelType| match bound {
        None => {
            *bound = Some(found.clone());
            true
        }
        Some(before) => match before.join(found) {
            Some(joined) => {
                *bound = Some(joined);
                true
            }
            None => false,
        },
    };
    let is_summable =
        |found: &CelType| found.is_number() || matches!(found, CelType::Dyn | CelType::Duration | CelType::Null);
    match (sort, found) {
        (Sort::Any, _) => true,
        (Sort::A, found) => binds(found),
        (Sort::Ordered, found) => found.is_ordered() && binds(found),
        (Sort::Summable, found) => is_summable(found) && binds(found),
        (Sort::ListOfA | Sort::ListOfListsOfA | Sort::ListOfOrdered | Sort::ListOfSummable, CelType::Dyn) => {
            binds(&CelType::Dyn)
        }
        (Sort::ListOfA, CelType::List(list)) => binds(&list.element),
        (Sort::ListOfListsOfA, CelType::List(list)) => {
            matches!(list.element, CelType::Dyn | CelType::List(_)) && binds(list.element.element())
        }
        (Sort::ListOfOrdered, CelType::List(list)) => list.element.is_ordered() && binds(&list.element),
        (Sort::ListOfSummable, CelType::List(list)) => is_summable(&list.element) && binds(&list.element),
        (Sort::OptionalOfA | Sort::ListOfOptionalsOfA, CelType::Dyn) => binds(&CelType::Dyn),
        (Sort::ListOfOptionalsOfA, CelType::List(list)) => match &list.element {
            CelType::Optional(optional) => binds(&optional.of),
            CelType::Dyn => binds(&CelType::Dyn),
            _ => false,
        },
        (Sort::OptionalOfA, CelType::Optional(optional)) => binds(&optional.of),
        (_, CelType::Dyn) => true,
        (Sort::ListOfText, CelType::List(list)) => list.element.accepts(&CelType::TEXT),
        (Sort::ListOfInt, CelType::List(list)) => list.element.accepts(&CelType::Int),
        (Sort::Map, found) => matches!(found, CelType::Map(_) | CelType::Object(_)),
        (sort, found) => type_of(sort, None).accepts(found),
    }
}

/// The type of an entry of the table. `bound` is the type of `A`; `None`: dynamic.
fn type_of(sort: Sort, bound: Option<CelType>) -> CelType {
    let bound = bound.unwrap_or(CelType::Dyn);
    match sort {
        Sort::Any => CelType::Dyn,
        Sort::Bool => CelType::Bool,
        Sort::Int => CelType::Int,
        Sort::Uint => CelType::Uint,
        Sort::Double => CelType::Double,
        Sort::Text => CelType::TEXT,
        Sort::Bytes => CelType::Bytes,
        Sort::Time => CelType::Timestamp,
        Sort::Span => CelType::Duration,
        Sort::Type => CelType::Type,
        Sort::Quantity => CelType::Quantity,
        Sort::Ip => CelType::Ip,
        Sort::Cidr => CelType::Cidr,
        Sort::Url => CelType::Url,
        Sort::Semver => CelType::Semver,
        Sort::Format => CelType::Format,
        Sort::QueryMap => CelType::map(CelType::TEXT, CelType::list_of(CelType::TEXT), None),
        Sort::OptionalTexts => CelType::optional(CelType::list_of(CelType::TEXT)),
        Sort::OptionalFormat => CelType::optional(CelType::Format),
        Sort::ListOfOptionalsOfA => CelType::list_of(CelType::optional(bound)),
        Sort::A | Sort::Ordered | Sort::Summable => bound,
        Sort::ListOfA | Sort::ListOfOrdered | Sort::ListOfSummable => CelType::list_of(bound),
        Sort::ListOfListsOfA => CelType::list_of(CelType::list_of(bound)),
        Sort::ListOfAny => CelType::list_of(CelType::Dyn),
        Sort::ListOfText => CelType::list_of(CelType::TEXT),
        Sort::ListOfInt => CelType::list_of(CelType::Int),
        // This value is not used: no result is a map, and `fits` decides for arguments.
        Sort::Map => CelType::Bool,
        Sort::OptionalOfA => CelType::optional(bound),
    }
}
