"""Runs the tests of the Python client that talk to a server, and prints what became of each as a JSON document a line.

The package has the tests but not the module from which they take their configuration; this program provides that one.
The argument is a kubeconfig.
"""

import json
import sys
import types
import unittest

from kubernetes import client, config

KUBECONFIG = sys.argv[1]


def get_e2e_configuration():
    configuration = client.Configuration()
    config.load_kube_config(KUBECONFIG, client_configuration=configuration)
    return configuration


base = types.ModuleType("kubernetes.e2e_test.base")
base.get_e2e_configuration = get_e2e_configuration
package = types.ModuleType("kubernetes.e2e_test")
package.base = base
sys.modules["kubernetes.e2e_test"] = package
sys.modules["kubernetes.e2e_test.base"] = base


class Results(unittest.TestResult):
    def say(self, test, outcome, said=""):
        name = test.id().removeprefix("kubernetes.")
        document = {"test": name, "outcome": outcome, "said": said}
        print("outcome: " + json.dumps(document), flush=True)

    def addSuccess(self, test):
        self.say(test, "passed")

    def addError(self, test, error):
        self.say(test, "failed", self._exc_info_to_string(error, test)[-2000:])

    def addFailure(self, test, error):
        self.addError(test, error)

    def addSkip(self, test, reason):
        self.say(test, "skipped", reason)


names = ["kubernetes.dynamic.test_client", "kubernetes.dynamic.test_discovery"]
unittest.defaultTestLoader.loadTestsFromNames(names).run(Results())
