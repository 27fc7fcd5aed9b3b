"""Keeps all objects of a resource with the Python client until it is told to end (SIGTERM): what that costs is measured from outside.

Says on its standard output, a JSON document a line, how many objects it holds once it has all, and how many changes came after that. Pods
are objects of the client's own classes, other resources are dictionaries, as the client returns them.
"""

import argparse
import json
import signal

from kubernetes import client, config, watch


class Stop(Exception):
    """SIGTERM."""


def stop(_signal, _frame):
    raise Stop


def say(**members):
    print(json.dumps(members), flush=True)


def key(found):
    if isinstance(found, dict):
        return found["metadata"]["namespace"], found["metadata"]["name"]
    return found.metadata.namespace, found.metadata.name


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    # One dash, as the Go program takes them.
    parser.add_argument("-kubeconfig", required=True)
    parser.add_argument("-group", default="")
    parser.add_argument("-version", default="v1")
    parser.add_argument("-resource", required=True)
    parser.add_argument("-kind", default="")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    config.load_kube_config(config_file=arguments.kubeconfig)
    if arguments.group:
        function = client.CustomObjectsApi().list_cluster_custom_object
        positional = [arguments.group, arguments.version, arguments.resource]
    else:
        function, positional = client.CoreV1Api().list_pod_for_all_namespaces, []
    changes = 0
    try:
        listed = function(*positional)
        if isinstance(listed, dict):
            version, items = listed["metadata"]["resourceVersion"], listed["items"]
        else:
            version, items = listed.metadata.resource_version, listed.items
        held = {key(found): found for found in items}
        del listed, items
        say(synced=len(held))
        while True:
            watcher = watch.Watch()
            for told in watcher.stream(function, *positional, resource_version=version, allow_watch_bookmarks=True):
                version = watcher.resource_version
                if told["type"] == "BOOKMARK":
                    continue
                changes += 1
                if told["type"] == "DELETED":
                    held.pop(key(told["object"]), None)
                else:
                    held[key(told["object"])] = told["object"]
    except Stop:
        say(changes=changes)


if __name__ == "__main__":
    main()
