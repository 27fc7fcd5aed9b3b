package dev.fieldcache.e2e;

import io.kubernetes.client.informer.ResourceEventHandler;
import io.kubernetes.client.informer.SharedIndexInformer;
import io.kubernetes.client.informer.SharedInformerFactory;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.util.ClientBuilder;
import io.kubernetes.client.util.KubeConfig;
import io.kubernetes.client.util.generic.dynamic.DynamicKubernetesApi;
import io.kubernetes.client.util.generic.dynamic.DynamicKubernetesObject;
import java.io.FileReader;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;

/**
 * Runs an unmodified informer of the official Java client until it receives SIGTERM. It reports as {@link Informer} does.
 *
 * <p>It watches over HTTP: this client opens no WebSocket for a watch.
 */
public final class Official {
    private Official() {}

    public static void main(String[] arguments) throws InterruptedException, IOException {
        Map<String, String> options = Report.options(arguments);
        ApiClient client;
        try (FileReader kubeconfig = new FileReader(options.get("-kubeconfig"))) {
            client = ClientBuilder.kubeconfig(KubeConfig.loadKubeConfig(kubeconfig)).build();
        }
        // A watch has no end that the client sets.
        client.setReadTimeout(0);
        DynamicKubernetesApi api =
                new DynamicKubernetesApi(options.get("-group"), options.get("-version"), options.get("-resource"), client);
        SharedInformerFactory factory = new SharedInformerFactory(client);
        SharedIndexInformer<DynamicKubernetesObject> informer =
                factory.sharedIndexInformerFor(api, DynamicKubernetesObject.class, 0);
        informer.addEventHandler(new ResourceEventHandler<>() {
            @Override
            public void onAdd(DynamicKubernetesObject added) {
                handled("ADDED", added);
            }

            @Override
            public void onUpdate(DynamicKubernetesObject old, DynamicKubernetesObject updated) {
                handled("MODIFIED", updated);
            }

            @Override
            public void onDelete(DynamicKubernetesObject deleted, boolean isFinalStateUnknown) {
                handled(isFinalStateUnknown ? "GONE" : "DELETED", deleted);
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            Report.say("store", held(informer));
            Runtime.getRuntime().halt(0);
        }));
        factory.startAllRegisteredInformers();
        while (!informer.hasSynced()) {
            Thread.sleep(Duration.ofMillis(20).toMillis());
        }
        Report.say("list", Map.of("objects", held(informer)));
        new CountDownLatch(1).await();
    }

    private static Map<String, String> held(SharedIndexInformer<DynamicKubernetesObject> informer) {
        Map<String, String> versions = new TreeMap<>();
        for (DynamicKubernetesObject object : informer.getIndexer().list()) {
            versions.put(key(object.getMetadata()), object.getMetadata().getResourceVersion());
        }
        return versions;
    }

    private static String key(V1ObjectMeta metadata) {
        return metadata.getNamespace() + "/" + metadata.getName();
    }

    private static void handled(String type, DynamicKubernetesObject object) {
        V1ObjectMeta metadata = object.getMetadata();
        Report.handled(type, key(metadata), metadata.getResourceVersion(), metadata.getUid());
    }
}
