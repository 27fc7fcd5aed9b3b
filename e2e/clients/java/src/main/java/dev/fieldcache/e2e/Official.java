package dev.fieldcache.e2e;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
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
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;

/**
 * Runs an unmodified informer of the official Java client until it is told to end (SIGTERM), in the form of {@link Informer}.
 *
 * <p>It watches over HTTP: this client opens no WebSocket for a watch.
 */
public final class Official {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Official() {}

    public static void main(String[] arguments) throws InterruptedException, IOException {
        Map<String, String> asked = new HashMap<>();
        for (int index = 0; index + 1 < arguments.length; index += 2) {
            asked.put(arguments[index], arguments[index + 1]);
        }
        ApiClient client;
        try (FileReader kubeconfig = new FileReader(asked.get("-kubeconfig"))) {
            client = ClientBuilder.kubeconfig(KubeConfig.loadKubeConfig(kubeconfig)).build();
        }
        // A watch has no end that the client sets.
        client.setReadTimeout(0);
        DynamicKubernetesApi api =
                new DynamicKubernetesApi(asked.get("-group"), asked.get("-version"), asked.get("-resource"), client);
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
            say("store", held(informer));
            Runtime.getRuntime().halt(0);
        }));
        factory.startAllRegisteredInformers();
        while (!informer.hasSynced()) {
            Thread.sleep(Duration.ofMillis(20).toMillis());
        }
        say("list", Map.of("objects", held(informer)));
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
        say("handler", Map.of(
                "type", type,
                "key", key(metadata),
                "resourceVersion", metadata.getResourceVersion(),
                "uid", metadata.getUid()));
    }

    private static synchronized void say(String name, Object content) {
        try {
            System.out.println(JSON.writeValueAsString(Map.of(name, content)));
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }
}
