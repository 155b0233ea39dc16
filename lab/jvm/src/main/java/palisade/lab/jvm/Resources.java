package palisade.lab.jvm;

import java.io.IOException;
import java.io.InputStream;
import java.net.URISyntaxException;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/** What lies in the jar. */
final class Resources {
    private Resources() {}

    static Path jar() {
        try {
            return Path.of(Main.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        } catch (URISyntaxException error) {
            throw new IllegalStateException(error);
        }
    }

    static byte[] read(String name) {
        try (InputStream stream = Resources.class.getResourceAsStream(name)) {
            return stream.readAllBytes();
        } catch (IOException error) {
            throw new IllegalStateException("cannot read " + name + " of the jar", error);
        }
    }

    /** Every source file below {@code /sources/NAME}, by its path below that, in the order of the paths. */
    static Map<String, String> sources(String name) throws IOException {
        var sources = new TreeMap<String, String>();
        try (FileSystem files = FileSystems.newFileSystem(jar())) {
            Path root = files.getPath("/sources", name);
            for (Path path : sourceFiles(root)) {
                sources.put(root.relativize(path).toString(), Files.readString(path));
            }
        }
        return sources;
    }

    private static List<Path> sourceFiles(Path root) throws IOException {
        try (Stream<Path> paths = Files.walk(root)) {
            return paths.filter(path -> path.toString().endsWith(".java")).toList();
        }
    }
}
