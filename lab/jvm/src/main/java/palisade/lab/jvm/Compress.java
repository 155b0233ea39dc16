package palisade.lab.jvm;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/**
 * LZW (Welch, "A Technique for High-Performance Data Compression", 1984) on source text: codes of 15 bits, and a table
 * that is begun anew when it is full.
 */
@State(Scope.Thread)
public class Compress {
    private static final int BYTES = 250_000;
    private static final int LITERALS = 256;
    private static final int CODES = 1 << 15;

    private byte[] text;

    /** Cuts the text. */
    @Setup
    public void read() throws IOException {
        String sources = String.join("", Resources.sources("compiler").values())
                + String.join("", Resources.sources("geometry").values());
        text = Arrays.copyOf(sources.getBytes(StandardCharsets.UTF_8), BYTES);
    }

    /** There and back. */
    @Benchmark
    public long compress() {
        byte[] packed = pack(text);
        byte[] unpacked = unpack(packed, text.length);
        if (!Arrays.equals(text, unpacked)) {
            throw new IllegalStateException("what was unpacked is not what was packed");
        }
        return Checksum.expect(4_148_549_760L, Checksum.of(packed));
    }

    private static byte[] pack(byte[] input) {
        var output = new ByteArrayOutputStream(input.length / 2);
        var table = new Table();
        int prefix = input[0] & 0xff;
        for (int at = 1; at < input.length; at++) {
            int letter = input[at] & 0xff;
            int longer = table.find(prefix, letter);
            if (longer >= 0) {
                prefix = longer;
                continue;
            }
            write(output, prefix);
            if (!table.add(prefix, letter)) {
                table = new Table();
            }
            prefix = letter;
        }
        write(output, prefix);
        return output.toByteArray();
    }

    private static void write(ByteArrayOutputStream output, int code) {
        output.write(code >>> 8);
        output.write(code);
    }

    /** Which code stands for a known string and one more letter: hashed, with open addresses. */
    private static final class Table {
        private static final int SLOTS = 1 << 18;
        private final int[] keys = new int[SLOTS];
        private final int[] codes = new int[SLOTS];
        private int next = LITERALS;

        int find(int prefix, int letter) {
            int slot = slot(prefix, letter);
            return keys[slot] == 0 ? -1 : codes[slot];
        }

        /** False when there is no code left. */
        boolean add(int prefix, int letter) {
            if (next == CODES) {
                return false;
            }
            int slot = slot(prefix, letter);
            keys[slot] = key(prefix, letter);
            codes[slot] = next++;
            return true;
        }

        private int slot(int prefix, int letter) {
            int key = key(prefix, letter);
            int slot = (key * 0x9e3779b1) >>> 14;
            while (keys[slot] != 0 && keys[slot] != key) {
                slot = (slot + 1) & (SLOTS - 1);
            }
            return slot;
        }

        /** Never 0, which is an empty slot. */
        private static int key(int prefix, int letter) {
            return (prefix << 8 | letter) + 1;
        }
    }

    private static byte[] unpack(byte[] packed, int length) {
        byte[] output = new byte[length];
        // A code's string begins at starts[code] of the output and is lengths[code] long.
        int[] starts = new int[CODES];
        int[] lengths = new int[CODES];
        int next = LITERALS;
        int written = 0;
        int previousStart = 0;
        int previousLength = 0;
        for (int at = 0; at < packed.length; at += 2) {
            int code = (packed[at] & 0xff) << 8 | packed[at + 1] & 0xff;
            int start = written;
            if (previousLength > 0) {
                if (next == CODES) {
                    next = LITERALS;
                } else {
                    // The string of before and the first letter of this one, which follows it in the output.
                    starts[next] = previousStart;
                    lengths[next] = previousLength + 1;
                    next++;
                }
            }
            if (code < LITERALS) {
                output[written++] = (byte) code;
            } else {
                for (int index = 0; index < lengths[code]; index++) {
                    output[written++] = output[starts[code] + index];
                }
            }
            previousStart = start;
            previousLength = written - start;
        }
        return output;
    }
}
