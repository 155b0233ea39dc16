package palisade.lab.jvm;

import java.util.zip.CRC32C;

/** Results as one number, and their comparison with the one that is right. */
final class Checksum {
    private Checksum() {}

    /** The result, which is used by being compared: no compiler can leave the work out. */
    static long expect(long right, long result) {
        if (result != right) {
            throw new IllegalStateException("wrong result: " + result + "L, not " + right + "L");
        }
        return result;
    }

    static long of(byte[] bytes) {
        var checksum = new CRC32C();
        checksum.update(bytes, 0, bytes.length);
        return checksum.getValue();
    }

    /** To the last bit: floating point is the same on every machine since Java 17 (JEP 306). */
    static long of(double[] values) {
        long sum = 0;
        for (double value : values) {
            sum = sum * 31 + Double.doubleToRawLongBits(value);
        }
        return sum;
    }

    static long of(double[][] rows) {
        long sum = 0;
        for (double[] row : rows) {
            sum = sum * 31 + of(row);
        }
        return sum;
    }
}
