package palisade.lab.jvm;

import java.util.Random;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/**
 * A dense matrix taken apart into a lower and an upper one, with partial pivoting, row by row (Golub and Van Loan,
 * "Matrix Computations", right-looking). As large as in SciMark 2: 100 rows and 1000.
 */
@State(Scope.Thread)
public class Lu {
    /** The cache holds it, or not. */
    @Param({"small", "large"})
    public String size;

    private double[][] matrix;
    private double[][] work;

    /** Makes the matrix. */
    @Setup
    public void make() {
        int rows = size.equals("large") ? 1000 : 100;
        var random = new Random(rows);
        matrix = new double[rows][];
        for (int row = 0; row < rows; row++) {
            matrix[row] = random.doubles(rows).toArray();
        }
        work = new double[rows][rows];
    }

    /** One factorisation of a copy. */
    @Benchmark
    public long lu() {
        for (int row = 0; row < matrix.length; row++) {
            System.arraycopy(matrix[row], 0, work[row], 0, matrix.length);
        }
        int swaps = factor(work);
        return Checksum.expect(size.equals("large") ? 4_412_456_095_154_230_815L : -4_511_417_041_582_014_554L, Checksum.of(work) * 31 + swaps);
    }

    private static int factor(double[][] matrix) {
        int swaps = 0;
        for (int column = 0; column < matrix.length; column++) {
            int pivot = pivotOf(matrix, column);
            if (pivot != column) {
                double[] kept = matrix[pivot];
                matrix[pivot] = matrix[column];
                matrix[column] = kept;
                swaps++;
            }
            for (int row = column + 1; row < matrix.length; row++) {
                eliminate(matrix[row], matrix[column], column);
            }
        }
        return swaps;
    }

    private static int pivotOf(double[][] matrix, int column) {
        int pivot = column;
        for (int row = column + 1; row < matrix.length; row++) {
            if (Math.abs(matrix[row][column]) > Math.abs(matrix[pivot][column])) {
                pivot = row;
            }
        }
        return pivot;
    }

    private static void eliminate(double[] row, double[] pivotRow, int column) {
        double factor = row[column] / pivotRow[column];
        row[column] = factor;
        for (int index = column + 1; index < row.length; index++) {
            row[index] -= factor * pivotRow[index];
        }
    }
}
