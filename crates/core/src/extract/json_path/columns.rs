//! Columns of a definition whose templates are not valid.

use super::template::JsonPath;
use crate::crd::Crd;
use crate::model::quote;

/// A message for each version of a definition that has a column with an invalid path, about the first such column.
pub fn unreadable_columns(crd: &Crd) -> Vec<String> {
    let versions = crd.versions.iter().enumerate().filter_map(|(version, found)| {
        let mut columns = found.printer_columns.iter().enumerate();
        columns.find_map(|(column, found)| {
            let error = JsonPath::parse(&found.json_path).err()?;
            Some(format!(
                "spec.versions[{version}].additionalPrinterColumns[{column}].jsonPath: {}: {error}; as on the API server, this \
                 column and those after it are not shown",
                quote(&found.json_path)
            ))
        })
    });
    versions.collect()
}
