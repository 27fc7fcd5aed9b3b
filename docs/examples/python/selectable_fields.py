"""Lists the selectable fields of a kind, and the objects with given values of these fields:

    python3 selectable_fields.py URL GROUP/VERSION KIND [FIELD=VALUE...]
    python3 selectable_fields.py http://127.0.0.1:8181 stable.example.com/v1 Shirt spec.color=blue

The fields come from the OpenAPI v3 document of a fieldcache server. A misspelt field is an error before the list request.
It shows no credentials, as `fieldcache serve` needs none. ../README.md says what to change for a View.
It needs only the standard library.
"""

import json
import sys
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen


def get(url):
    try:
        with urlopen(url) as response:
            return json.load(response)
    except HTTPError as error:
        raise ValueError(f"{url}: {error}: {error.read().decode()}") from error


def selectable_fields(document, group, version, kind):
    """The selectable fields of a kind in the document of its group and version."""
    wanted = {"group": group, "version": version, "kind": kind}
    for schema in document["components"]["schemas"].values():
        if wanted in schema.get("x-kubernetes-group-version-kind", []):
            return [field["fieldPath"] for field in schema.get("x-kubernetes-selectable-fields", [])]
    raise ValueError("its OpenAPI document has no schema of this kind")


def field_selector(selectable, terms):
    """The selector of FIELD=VALUE terms, all of whose fields must be selectable."""
    selectors = []
    for term in terms:
        field, equals, value = term.partition("=")
        if not equals or field not in selectable:
            known = ", ".join(selectable) or "none"
            what = "not FIELD=VALUE with a selectable field; these are selectable"
            raise ValueError(f'argument "{term}": {what}: {known}')
        # These three characters have a meaning in selectors.
        for character in "\\,=":
            value = value.replace(character, "\\" + character)
        selectors.append(f"{field}={value}")
    return ",".join(selectors)


def resource_of(resources, kind):
    """The resource of a kind in the discovery of its group and version. Names of subresources have a slash."""
    for resource in resources["resources"]:
        if resource["kind"] == kind and "/" not in resource["name"]:
            return resource["name"]
    raise ValueError("no resource has this kind")


def run(url, group_version, kind, terms):
    group, _, version = group_version.rpartition("/")
    path = f"apis/{group_version}" if group else f"api/{version}"
    selectable = selectable_fields(get(f"{url}/openapi/v3/{path}"), group, version, kind)
    print("selectable:", ", ".join(selectable) or "none")
    selector = field_selector(selectable, terms)
    print("selector:", selector)
    resource = resource_of(get(f"{url}/{path}"), kind)
    listed = get(f"{url}/{path}/{resource}?{urlencode({'fieldSelector': selector})}")
    for item in listed["items"]:
        metadata = item["metadata"]
        print("/".join(filter(None, [metadata.get("namespace"), metadata["name"]])))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("Error: usage: selectable_fields.py URL GROUP/VERSION KIND [FIELD=VALUE...]")
    try:
        run(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
    except (ValueError, URLError) as error:
        sys.exit(f"Error: {sys.argv[2]} {sys.argv[3]}: {error}")
