package palisade.lab.jvm;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.StringWriter;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.tools.FileObject;
import javax.tools.ForwardingJavaFileManager;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/**
 * The JDK's compiler at work on parts of other projects' sources, from memory to memory. The rest of those projects is
 * on the class path.
 */
@State(Scope.Thread)
public class Compile {
    private final JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    /** What it reads of the JDK and of the jar is opened once. */
    private StandardJavaFileManager disk;

    private Map<String, String> compilerSources;
    private Map<String, String> geometrySources;

    /** Reads all sources once. */
    @Setup
    public void read() throws IOException {
        if (compiler == null) {
            throw new IllegalStateException("this is a JRE without a compiler: install a JDK");
        }
        disk = compiler.getStandardFileManager(null, null, StandardCharsets.UTF_8);
        compilerSources = Resources.sources("compiler");
        geometrySources = Resources.sources("geometry");
    }

    /** Closes what it read. */
    @TearDown
    public void close() throws IOException {
        disk.close();
    }

    /** A part of a compiler: what those of the Janino project have in common. */
    @Benchmark
    public long compiler() {
        return Checksum.expect(1_942_529_233L, compile(compilerSources));
    }

    /** Geometry in space, as a ray tracer needs it: a part of commons-math. */
    @Benchmark
    public long geometry() {
        return Checksum.expect(3_409_641_953L, compile(geometrySources));
    }

    /** A checksum of the names of the classes that came out: what is in them differs from JDK to JDK. */
    private long compile(Map<String, String> sources) {
        var classes = new Classes(disk);
        List<Source> units = sources.entrySet().stream().map(Source::new).toList();
        List<String> options = List.of("-proc:none", "-nowarn", "-classpath", Resources.jar().toString());
        var complaints = new StringWriter();
        if (!compiler.getTask(complaints, classes, null, options, null, units).call()) {
            throw new IllegalStateException("the sources do not compile: " + complaints);
        }
        return classes.checksum();
    }

    private static final class Source extends SimpleJavaFileObject {
        private final String text;

        Source(Map.Entry<String, String> source) {
            super(URI.create("memory:///" + source.getKey()), Kind.SOURCE);
            text = source.getValue();
        }

        @Override
        public CharSequence getCharContent(boolean ignoreErrors) {
            return text;
        }
    }

    /** Takes what the compiler writes; everything else is read from disk. */
    private static final class Classes extends ForwardingJavaFileManager<JavaFileManager> {
        private final Map<String, ByteArrayOutputStream> written = new TreeMap<>();

        Classes(JavaFileManager disk) {
            super(disk);
        }

        @Override
        public JavaFileObject getJavaFileForOutput(
                Location location, String name, JavaFileObject.Kind kind, FileObject sibling) {
            var bytes = new ByteArrayOutputStream();
            written.put(name, bytes);
            return new SimpleJavaFileObject(URI.create("memory:///" + name + kind.extension), kind) {
                @Override
                public OutputStream openOutputStream() {
                    return bytes;
                }
            };
        }

        long checksum() {
            written.forEach((name, bytes) -> {
                if (bytes.size() < Integer.BYTES) {
                    throw new IllegalStateException(name + " is empty");
                }
            });
            String names = String.join("\n", written.keySet());
            return Checksum.of(names.getBytes(StandardCharsets.UTF_8));
        }
    }
}
