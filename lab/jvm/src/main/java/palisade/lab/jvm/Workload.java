package palisade.lab.jvm;

import java.util.Arrays;

/** Every workload: its name in tables, the method that is it, and its size where it has two. */
enum Workload {
    COMPILER_COMPILER("compiler.compiler", Compile.class, "compiler", null),
    COMPILER_GEOMETRY("compiler.geometry", Compile.class, "geometry", null),
    COMPRESS("compress", Compress.class, "compress", null),
    CRYPTO_AES("crypto.aes", Crypto.class, "aes", null),
    CRYPTO_RSA("crypto.rsa", Crypto.class, "rsa", null),
    CRYPTO_SIGNVERIFY("crypto.signverify", Crypto.class, "signverify", null),
    DERBY("derby", Database.class, "derby", null),
    MPEGAUDIO("mpegaudio", MpegAudio.class, "mpegaudio", null),
    FFT_LARGE("scimark.fft.large", Fft.class, "fft", "large"),
    LU_LARGE("scimark.lu.large", Lu.class, "lu", "large"),
    SOR_LARGE("scimark.sor.large", Sor.class, "sor", "large"),
    SPARSE_LARGE("scimark.sparse.large", Sparse.class, "sparse", "large"),
    FFT_SMALL("scimark.fft.small", Fft.class, "fft", "small"),
    LU_SMALL("scimark.lu.small", Lu.class, "lu", "small"),
    SOR_SMALL("scimark.sor.small", Sor.class, "sor", "small"),
    SPARSE_SMALL("scimark.sparse.small", Sparse.class, "sparse", "small"),
    MONTE_CARLO("scimark.monte_carlo", MonteCarlo.class, "monteCarlo", null),
    SERIAL("serial", Serial.class, "serial", null),
    RAYTRACER("raytracer", RayTracer.class, "raytracer", null),
    XML_TRANSFORM("xml.transform", Xml.class, "transform", null),
    XML_VALIDATION("xml.validation", Xml.class, "validation", null);

    private final String title;
    private final String method;
    private final String size;

    Workload(String title, Class<?> state, String method, String size) {
        this.title = title;
        this.method = state.getName() + "." + method;
        this.size = size;
    }

    static Workload titled(String title) {
        return Arrays.stream(values())
                .filter(workload -> workload.title.equals(title))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("no workload is named " + title));
    }

    String title() {
        return title;
    }

    /** What JMH knows it by. */
    String method() {
        return method;
    }

    /** The value of its parameter {@code size}; null where it has none. */
    String size() {
        return size;
    }
}
