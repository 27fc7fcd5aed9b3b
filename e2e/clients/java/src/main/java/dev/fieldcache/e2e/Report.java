package dev.fieldcache.e2e;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.Map;

/**
 * The arguments of an informer, and what it reports on its standard output: a JSON document a line, in the form that
 * e2e/clients/go/say.go describes.
 */
final class Report {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Report() {}

    /** The values of arguments by their names, such as {@code -kubeconfig}. */
    static Map<String, String> options(String[] arguments) {
        Map<String, String> options = new HashMap<>();
        for (int index = 0; index + 1 < arguments.length; index += 2) {
            options.put(arguments[index], arguments[index + 1]);
        }
        return options;
    }

    /** Reports a call of the handler. */
    static void handled(String type, String key, String resourceVersion, String uid) {
        say("handler", Map.of("type", type, "key", key, "resourceVersion", resourceVersion, "uid", uid));
    }

    static synchronized void say(String name, Object content) {
        try {
            System.out.println(JSON.writeValueAsString(Map.of(name, content)));
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }
}
