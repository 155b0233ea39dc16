package palisade.lab.jvm;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.ChainedOptionsBuilder;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Runs workloads by JMH within this very JVM, without forks: whoever starts it, with whatever wall around it, has
 * started what is measured. A JVM is there for one workload, so that what one of them taught the compiler is in no
 * figure of another's.
 *
 * <pre>
 *   list                              the names of all workloads
 *   run NAME MILLISECONDS SCRATCH     two fifths of the time to warm up, the rest in three parts to measure; prints
 *                                     NAME NS NS NS: the mean time of one operation in each part
 *   check SCRATCH                     every workload once, cold; prints each name whose result was right
 * </pre>
 */
public final class Main {
    private static final int THREADS = 2;
    private static final int PARTS = 3;
    private static final String USAGE = "usage: list | run NAME MILLISECONDS SCRATCH | check SCRATCH";

    private Main() {}

    /** Ends with 0 only if all that was asked for ran and every result was right. */
    public static void main(String[] words) {
        try {
            // Nothing else is measured in this JVM, and a lock in /tmp would be another user's.
            System.setProperty("jmh.ignoreLock", "true");
            run(words);
        } catch (RunnerException error) {
            fail(rootOf(error).toString());
        } catch (IllegalArgumentException error) {
            fail(error.getMessage());
        }
    }

    private static void run(String[] words) throws RunnerException {
        String verb = words.length == 0 ? "" : words[0];
        switch (verb + "/" + words.length) {
            case "list/1" -> Arrays.stream(Workload.values()).map(Workload::title).forEach(System.out::println);
            case "run/4" -> System.out.println(
                    measure(Workload.titled(words[1]), Long.parseLong(words[2]), Path.of(words[3])));
            case "check/2" -> {
                for (Workload workload : Workload.values()) {
                    check(workload, Path.of(words[1]));
                    System.out.println(workload.title());
                }
            }
            default -> throw new IllegalArgumentException(USAGE);
        }
    }

    private static String measure(Workload workload, long milliseconds, Path scratch) throws RunnerException {
        long warmUp = milliseconds * 2 / 5;
        long part = (milliseconds - warmUp) / PARTS;
        var options = options(workload, scratch)
                .mode(Mode.AverageTime)
                .warmupIterations(1)
                .warmupTime(TimeValue.milliseconds(Math.max(1, warmUp)))
                .measurementIterations(PARTS)
                .measurementTime(TimeValue.milliseconds(Math.max(1, part)));
        StringBuilder line = new StringBuilder(workload.title());
        for (double nanoseconds : scores(options)) {
            line.append(' ').append(Math.round(nanoseconds));
        }
        return line.toString();
    }

    private static void check(Workload workload, Path scratch) throws RunnerException {
        scores(options(workload, scratch)
                .mode(Mode.SingleShotTime)
                .warmupIterations(0)
                .measurementIterations(1));
    }

    private static ChainedOptionsBuilder options(Workload workload, Path scratch) {
        if (!Files.isDirectory(scratch)) {
            throw new IllegalArgumentException(scratch + " is no folder to write to");
        }
        System.setProperty(Database.SCRATCH, scratch.toString());
        var options = new OptionsBuilder()
                .include("^" + workload.method().replace(".", "\\.") + "$")
                .forks(0)
                .threads(THREADS)
                .timeUnit(TimeUnit.NANOSECONDS)
                .shouldFailOnError(true)
                .verbosity(VerboseMode.SILENT);
        return workload.size() == null ? options : options.param("size", workload.size());
    }

    private static double[] scores(ChainedOptionsBuilder options) throws RunnerException {
        List<RunResult> results = List.copyOf(new Runner(options.build()).run());
        if (results.size() != 1) {
            throw new IllegalStateException(results.size() + " benchmarks of one name");
        }
        return results.get(0).getBenchmarkResults().stream()
                .flatMap(result -> result.getIterationResults().stream())
                .map(IterationResult::getPrimaryResult)
                .mapToDouble(result -> result.getScore())
                .toArray();
    }

    private static Throwable rootOf(Throwable error) {
        Throwable root = error;
        while (root.getCause() != null || root.getSuppressed().length > 0) {
            root = root.getCause() != null ? root.getCause() : root.getSuppressed()[0];
        }
        return root;
    }

    private static void fail(String why) {
        System.err.println("benchmarks: " + why);
        System.exit(1);
    }
}
