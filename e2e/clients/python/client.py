"""Runs the list-and-watch loop of the Python client until it is told to end (SIGTERM).

Says on its standard output, a JSON document a line, what it asked, what came and what it holds at the end, in the form that
e2e/clients/go/say.go describes. It judges nothing: the test that starts it does.
"""

import argparse
import json
import signal
import time
from types import SimpleNamespace

import urllib3
from kubernetes import client, config, watch

# Between two tries while the server is away.
PAUSE = 0.2


class Stop(Exception):
    """SIGTERM."""


def stop(_signal, _frame):
    raise Stop


def say(**members):
    print(json.dumps(members), flush=True)


def key(metadata):
    return f"{metadata.namespace}/{metadata.name}"


def metadata_of(found):
    """What is read of an object or a list. Custom resources are dictionaries."""
    if not isinstance(found, dict):
        return found.metadata
    metadata = found["metadata"]
    return SimpleNamespace(
        namespace=metadata.get("namespace"),
        name=metadata.get("name"),
        resource_version=metadata["resourceVersion"],
        uid=metadata.get("uid"),
    )


def items_of(listed):
    return listed["items"] if isinstance(listed, dict) else listed.items


def list_function(arguments):
    """The function that lists, as people pass it to Watch.stream too."""
    if arguments.group:
        names = [arguments.group, arguments.version, arguments.namespace, arguments.resource]
        return client.CustomObjectsApi().list_namespaced_custom_object, names
    if arguments.resource != "pods":
        raise SystemExit("this program follows pods and custom resources, not " + arguments.resource)
    api = client.CoreV1Api()
    if arguments.namespace:
        # Watch reads the function's documentation, which a functools.partial would hide.
        return api.list_namespaced_pod, [arguments.namespace]
    return api.list_pod_for_all_namespaces, []


def follow(arguments, held):
    """The loop of a controller: list, watch from there, watch again from the last version, list again when that is too old."""
    function, positional = list_function(arguments)
    selection = {}
    if arguments.label_selector:
        selection["label_selector"] = arguments.label_selector
    if arguments.field_selector:
        selection["field_selector"] = arguments.field_selector
    version = None
    while True:
        try:
            if version is None:
                listed = function(*positional, **selection)
                version = metadata_of(listed).resource_version
                held.clear()
                found = [metadata_of(item) for item in items_of(listed)]
                held.update({key(metadata): metadata.resource_version for metadata in found})
                say(request={"verb": "list", "resourceVersion": "", "sendInitialEvents": False, "status": 200})
                say(list={"resourceVersion": version, "objects": held})
            say(request={"verb": "watch", "resourceVersion": version, "sendInitialEvents": False})
            watcher = watch.Watch()
            stream = watcher.stream(
                function,
                *positional,
                resource_version=version,
                timeout_seconds=arguments.timeout_seconds,
                allow_watch_bookmarks=True,
                **selection,
            )
            for told in stream:
                # The library's own note of the version, which a bookmark moves too.
                version = watcher.resource_version
                if told["type"] == "BOOKMARK":
                    continue
                metadata = metadata_of(told["object"])
                if told["type"] == "DELETED":
                    held.pop(key(metadata), None)
                else:
                    held[key(metadata)] = metadata.resource_version
                say(
                    event={
                        "type": told["type"],
                        "key": key(metadata),
                        "resourceVersion": metadata.resource_version,
                        "uid": metadata.uid,
                    }
                )
        except client.rest.ApiException as error:
            say(error=f"{error.status}: {error.reason}")
            if error.status == 410:
                version = None
            else:
                time.sleep(PAUSE)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            say(error=str(error))
            time.sleep(PAUSE)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    # One dash, as the Go program takes them.
    parser.add_argument("-kubeconfig", required=True)
    parser.add_argument("-group", default="")
    parser.add_argument("-version", default="v1")
    parser.add_argument("-resource", required=True)
    parser.add_argument("-kind", default="")
    parser.add_argument("-namespace", default="")
    parser.add_argument("-label-selector", default="")
    parser.add_argument("-field-selector", default="")
    parser.add_argument("-timeout-seconds", type=int, required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    config.load_kube_config(config_file=arguments.kubeconfig)
    held = {}
    try:
        follow(arguments, held)
    except Stop:
        say(store=held)


if __name__ == "__main__":
    main()
