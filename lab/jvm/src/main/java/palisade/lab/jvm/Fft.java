package palisade.lab.jvm;

import java.util.Random;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/**
 * Fast Fourier transform of complex numbers (Cooley and Tukey 1965, radix 2, in place), there and back. As large as
 * in SciMark 2: 1024 numbers and 2²⁰.
 */
@State(Scope.Thread)
public class Fft {
    /** The cache holds it, or not. */
    @Param({"small", "large"})
    public String size;

    /** Real and imaginary parts in turn. */
    private double[] input;

    private double[] work;

    /** Makes the input. */
    @Setup
    public void make() {
        int numbers = size.equals("large") ? 1 << 20 : 1 << 10;
        input = new Random(numbers).doubles(2L * numbers).toArray();
        work = new double[input.length];
    }

    /** The transform, and its inverse. */
    @Benchmark
    public long fft() {
        System.arraycopy(input, 0, work, 0, input.length);
        transform(work, 1.0);
        long spectrum = Checksum.of(work);
        transform(work, -1.0);
        double farthest = 0.0;
        double scale = 2.0 / work.length;
        for (int index = 0; index < work.length; index++) {
            farthest = Math.max(farthest, Math.abs(work[index] * scale - input[index]));
        }
        if (farthest > 1e-10) {
            throw new IllegalStateException("the inverse is off by " + farthest);
        }
        return Checksum.expect(size.equals("large") ? 3_422_614_613_873_889_382L : 4_951_107_588_013_033_775L, spectrum);
    }

    private static void transform(double[] data, double direction) {
        reverseBits(data);
        int numbers = data.length / 2;
        for (int half = 1; half < numbers; half *= 2) {
            double angle = direction * Math.PI / half;
            double sine = StrictMath.sin(angle);
            double halfSine = StrictMath.sin(angle / 2.0);
            double step = 2.0 * halfSine * halfSine;
            double real = 1.0;
            double imaginary = 0.0;
            for (int first = 0; first < half; first++) {
                butterflies(data, first, half, real, imaginary);
                double next = real - step * real - sine * imaginary;
                imaginary = imaginary + sine * real - step * imaginary;
                real = next;
            }
        }
    }

    private static void butterflies(double[] data, int first, int half, double real, double imaginary) {
        for (int upper = 2 * first; upper < data.length; upper += 4 * half) {
            int lower = upper + 2 * half;
            double turnedReal = real * data[lower] - imaginary * data[lower + 1];
            double turnedImaginary = real * data[lower + 1] + imaginary * data[lower];
            data[lower] = data[upper] - turnedReal;
            data[lower + 1] = data[upper + 1] - turnedImaginary;
            data[upper] += turnedReal;
            data[upper + 1] += turnedImaginary;
        }
    }

    private static void reverseBits(double[] data) {
        int numbers = data.length / 2;
        int shift = Integer.numberOfLeadingZeros(numbers) + 1;
        for (int index = 0; index < numbers; index++) {
            int other = Integer.reverse(index) >>> shift;
            if (index < other) {
                swap(data, 2 * index, 2 * other);
                swap(data, 2 * index + 1, 2 * other + 1);
            }
        }
    }

    private static void swap(double[] data, int one, int other) {
        double kept = data[one];
        data[one] = data[other];
        data[other] = kept;
    }
}
