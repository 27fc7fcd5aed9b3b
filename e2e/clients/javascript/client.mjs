// Runs the informer of the JavaScript client until it is told to end (SIGTERM).
//
// Says on its standard output, a JSON document a line, what it asked, what came and what it holds at the end, in the form that
// e2e/clients/go/say.go describes. It judges nothing: the test that starts it does.

import { parseArgs } from 'node:util';
import { CustomObjectsApi, KubeConfig, ListWatch, Watch } from '@kubernetes/client-node';

// Before an informer that met an error is started again, as the library's example does.
const PAUSE_MILLISECONDS = 300;

const say = (said) => process.stdout.write(JSON.stringify(said) + '\n');

const key = (object) => `${object.metadata.namespace}/${object.metadata.name}`;

const described = (type, object) => ({
    type,
    key: key(object),
    resourceVersion: object.metadata.resourceVersion,
    uid: object.metadata.uid,
});

const versions = (objects) =>
    Object.fromEntries(objects.map((object) => [key(object), object.metadata.resourceVersion]));

// The library's own watch, which says what it is asked and what it hands on.
class Said extends Watch {
    async watch(path, query, callback, done) {
        say({ request: { verb: 'watch', resourceVersion: query.resourceVersion, sendInitialEvents: false } });
        const told = (type, object, whole) => {
            if (type === 'ERROR') {
                say({ error: `${object.reason}: ${object.message}` });
            } else if (type !== 'BOOKMARK') {
                say({ event: described(type, object) });
            }
            return callback(type, object, whole);
        };
        return super.watch(path, { ...query, ...this.more }, told, done);
    }
}

const text = { type: 'string', default: '' };
const { values: asked } = parseArgs({
    // One dash, as the Go program takes them.
    args: process.argv.slice(2).map((argument) => (argument.startsWith('-') ? `-${argument}` : argument)),
    options: {
        kubeconfig: text,
        group: text,
        version: text,
        resource: text,
        kind: text,
        namespace: text,
        'label-selector': text,
        'field-selector': text,
        'timeout-seconds': text,
        'streaming-list': text,
    },
});
if (asked.group === '' || asked.namespace === '') {
    throw new Error('this program follows custom resources of one namespace');
}

const config = new KubeConfig();
config.loadFromFile(asked.kubeconfig);
const api = config.makeApiClient(CustomObjectsApi);
const selection = {
    labelSelector: asked['label-selector'] || undefined,
    fieldSelector: asked['field-selector'] || undefined,
};

const list = async () => {
    const { group, version, namespace, resource: plural } = asked;
    const listed = await api.listNamespacedCustomObject({ group, version, namespace, plural, ...selection });
    say({ request: { verb: 'list', resourceVersion: '', sendInitialEvents: false, status: 200 } });
    say({ list: { resourceVersion: listed.metadata.resourceVersion, objects: versions(listed.items) } });
    return listed;
};

const watch = new Said(config);
watch.more = asked['timeout-seconds'] === '' ? {} : { timeoutSeconds: asked['timeout-seconds'] };
const path = `/apis/${asked.group}/${asked.version}/namespaces/${asked.namespace}/${asked.resource}`;
// What makeInformer returns, but for the watch and the field selector, which it does not take.
const informer = new ListWatch(path, watch, list, false, selection.labelSelector, selection.fieldSelector);

informer.on('add', (object) => say({ handler: described('ADDED', object) }));
informer.on('update', (object) => say({ handler: described('MODIFIED', object) }));
informer.on('delete', (object) => say({ handler: described('DELETED', object) }));
informer.on('error', (error) => {
    say({ error: String(error) });
    setTimeout(() => informer.start(), PAUSE_MILLISECONDS);
});

process.on('SIGTERM', async () => {
    await informer.stop();
    process.stdout.write(JSON.stringify({ store: versions(informer.list()) }) + '\n', () => process.exit(0));
});

if (asked['streaming-list'] === '') {
    await informer.start();
} else {
    // The informer knows no streaming lists; its watch does.
    const initial = { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan', allowWatchBookmarks: true };
    await watch.watch(path, initial, () => {}, (error) => say({ error: String(error) }));
}
