package palisade.lab.jvm;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.util.List;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;

/** A graph of objects written by the JDK's serialisation and read back. */
@State(Scope.Thread)
public class Serial {
    private final List<Order> orders = Order.some(400);

    /** There and back. */
    @Benchmark
    public long serial() throws IOException, ClassNotFoundException {
        long sum = 0;
        for (Object order : (List<?>) read(write(orders))) {
            sum = sum * 31 + ((Order) order).checksum();
        }
        return Checksum.expect(-1_610_829_119_512_610_187L, sum);
    }

    private static byte[] write(Object graph) throws IOException {
        var bytes = new ByteArrayOutputStream();
        try (var stream = new ObjectOutputStream(bytes)) {
            stream.writeObject(graph);
        }
        return bytes.toByteArray();
    }

    private static Object read(byte[] bytes) throws IOException, ClassNotFoundException {
        try (var stream = new ObjectInputStream(new ByteArrayInputStream(bytes))) {
            return stream.readObject();
        }
    }
}
