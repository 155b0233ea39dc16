package palisade.lab.jvm;

import java.util.Random;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/**
 * Successive over-relaxation on a grid (Young 1950; Gauss and Seidel's order, five points). As large as in SciMark 2:
 * 100 × 100 and 1000 × 1000.
 */
@State(Scope.Thread)
public class Sor {
    private static final double OMEGA = 1.25;
    private static final int SWEEPS = 5;

    /** The cache holds it, or not. */
    @Param({"small", "large"})
    public String size;

    private double[][] start;
    private double[][] grid;

    /** Makes the grid. */
    @Setup
    public void make() {
        int side = size.equals("large") ? 1000 : 100;
        var random = new Random(side);
        start = new double[side][];
        for (int row = 0; row < side; row++) {
            start[row] = random.doubles(side).toArray();
        }
        grid = new double[side][side];
    }

    /** A few sweeps over a copy. */
    @Benchmark
    public long sor() {
        for (int row = 0; row < start.length; row++) {
            System.arraycopy(start[row], 0, grid[row], 0, start.length);
        }
        for (int count = 0; count < SWEEPS; count++) {
            sweep(grid);
        }
        return Checksum.expect(size.equals("large") ? -7_217_439_929_822_073_208L : -8_075_552_615_242_791_045L, Checksum.of(grid));
    }

    private static void sweep(double[][] grid) {
        double ofNeighbours = OMEGA / 4.0;
        double ofItself = 1.0 - OMEGA;
        for (int row = 1; row < grid.length - 1; row++) {
            double[] above = grid[row - 1];
            double[] here = grid[row];
            double[] below = grid[row + 1];
            for (int column = 1; column < here.length - 1; column++) {
                double neighbours = above[column] + below[column] + here[column - 1] + here[column + 1];
                here[column] = ofNeighbours * neighbours + ofItself * here[column];
            }
        }
    }
}
