package dev.fieldcache.e2e;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.ObjectMeta;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.File;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;

/**
 * Runs an unmodified informer of fabric8's client until it is told to end (SIGTERM).
 *
 * <p>It writes to its standard output, a JSON document a line, what its handler was told and what its store holds, in the form that
 * e2e/clients/go/say.go describes. It judges nothing: the program that starts it does.
 */
public final class Informer {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Informer() {}

    public static void main(String[] arguments) throws InterruptedException {
        Map<String, String> asked = new HashMap<>();
        for (int index = 0; index + 1 < arguments.length; index += 2) {
            asked.put(arguments[index], arguments[index + 1]);
        }
        Config config = Config.fromKubeconfig(new File(asked.get("-kubeconfig")));
        KubernetesClient client = new KubernetesClientBuilder().withConfig(config).build();
        ResourceDefinitionContext resource = new ResourceDefinitionContext.Builder()
                .withGroup(asked.get("-group"))
                .withVersion(asked.get("-version"))
                .withPlural(asked.get("-resource"))
                .withKind(asked.get("-kind"))
                .withNamespaced(true)
                .build();
        SharedIndexInformer<GenericKubernetesResource> informer =
                client.genericKubernetesResources(resource).inAnyNamespace().runnableInformer(0);
        informer.addEventHandler(new ResourceEventHandler<>() {
            @Override
            public void onAdd(GenericKubernetesResource added) {
                handled("ADDED", added);
            }

            @Override
            public void onUpdate(GenericKubernetesResource old, GenericKubernetesResource updated) {
                handled("MODIFIED", updated);
            }

            @Override
            public void onDelete(GenericKubernetesResource deleted, boolean isFinalStateUnknown) {
                handled(isFinalStateUnknown ? "GONE" : "DELETED", deleted);
            }
        });
        informer.stopped().whenComplete((nothing, error) -> say("error", "the informer has stopped: " + error));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            say("store", held(informer));
            Runtime.getRuntime().halt(0);
        }));
        informer.run();
        say("list", Map.of("objects", held(informer)));
        new CountDownLatch(1).await();
    }

    private static Map<String, String> held(SharedIndexInformer<GenericKubernetesResource> informer) {
        Map<String, String> versions = new TreeMap<>();
        for (GenericKubernetesResource object : informer.getStore().list()) {
            versions.put(key(object.getMetadata()), object.getMetadata().getResourceVersion());
        }
        return versions;
    }

    private static String key(ObjectMeta metadata) {
        return metadata.getNamespace() + "/" + metadata.getName();
    }

    private static void handled(String type, GenericKubernetesResource object) {
        ObjectMeta metadata = object.getMetadata();
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
