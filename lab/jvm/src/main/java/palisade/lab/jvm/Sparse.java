package palisade.lab.jvm;

import java.util.Random;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/**
 * A sparse matrix in compressed rows, times a vector. As large as in SciMark 2: 1000 rows with 5000 entries, and
 * 100,000 with 1,000,000; the entries of a row are spread over all columns.
 */
@State(Scope.Thread)
public class Sparse {
    private static final int TIMES = 5;

    /** The cache holds it, or not. */
    @Param({"small", "large"})
    public String size;

    private double[] entries;
    private int[] columns;
    /** Where each row begins in the entries. */
    private int[] begins;

    private double[] vector;
    private double[] product;

    /** Makes matrix and vector. */
    @Setup
    public void make() {
        int rows = size.equals("large") ? 100_000 : 1000;
        int ofRow = size.equals("large") ? 10 : 5;
        var random = new Random(rows);
        entries = random.doubles((long) rows * ofRow).toArray();
        vector = random.doubles(rows).toArray();
        product = new double[rows];
        columns = new int[rows * ofRow];
        begins = new int[rows + 1];
        for (int row = 0; row < rows; row++) {
            begins[row + 1] = begins[row] + ofRow;
            int step = Math.max(1, row / ofRow);
            for (int index = 0; index < ofRow; index++) {
                columns[begins[row] + index] = index * step;
            }
        }
    }

    /** A few products. */
    @Benchmark
    public long sparse() {
        long sum = 0;
        for (int count = 0; count < TIMES; count++) {
            multiply();
            sum = sum * 31 + Double.doubleToRawLongBits(product[count]);
        }
        return Checksum.expect(size.equals("large") ? -3_722_707_697_213_730_702L : -463_197_322_013_344_815L, sum * 31 + Checksum.of(product));
    }

    private void multiply() {
        for (int row = 0; row < product.length; row++) {
            double sum = 0.0;
            for (int index = begins[row]; index < begins[row + 1]; index++) {
                sum += entries[index] * vector[columns[index]];
            }
            product[row] = sum;
        }
    }
}
