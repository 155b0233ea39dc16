package palisade.lab.jvm;

import java.util.Random;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;

/**
 * Pi by throwing darts at a quarter of a disc. {@link Random} changes its state atomically, whoever uses it: what
 * SciMark 2 measures here is that.
 */
@State(Scope.Thread)
public class MonteCarlo {
    private static final int DARTS = 200_000;

    /** How many hit. */
    @Benchmark
    public long monteCarlo() {
        var random = new Random(113);
        long hits = 0;
        for (int dart = 0; dart < DARTS; dart++) {
            double x = random.nextDouble();
            double y = random.nextDouble();
            if (x * x + y * y <= 1.0) {
                hits++;
            }
        }
        return Checksum.expect(157_335L, hits);
    }
}
