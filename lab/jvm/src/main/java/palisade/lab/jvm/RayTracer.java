package palisade.lab.jvm;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;

/**
 * Mirrors and shadows after Whitted, "An Improved Illumination Model for Shaded Display" (1980): balls over a
 * chequered floor, one lamp, four rays a pixel.
 */
@State(Scope.Thread)
public class RayTracer {
    private static final int WIDTH = 96;
    private static final int HEIGHT = 72;
    private static final int BOUNCES = 4;
    private static final double[] JITTER = {0.25, 0.75};
    private static final Vector EYE = new Vector(0, 2, -9);
    private static final Vector LAMP = new Vector(-6, 9, -5);
    private static final Vector SKY = new Vector(0.5, 0.7, 1.0);

    private final List<Ball> balls = balls();

    private record Vector(double x, double y, double z) {
        Vector plus(Vector other) {
            return new Vector(x + other.x, y + other.y, z + other.z);
        }

        Vector minus(Vector other) {
            return new Vector(x - other.x, y - other.y, z - other.z);
        }

        Vector times(double factor) {
            return new Vector(x * factor, y * factor, z * factor);
        }

        double dot(Vector other) {
            return x * other.x + y * other.y + z * other.z;
        }

        Vector unit() {
            return times(1.0 / Math.sqrt(dot(this)));
        }
    }

    private record Ray(Vector from, Vector to) {
        Vector at(double distance) {
            return from.plus(to.times(distance));
        }
    }

    /** Where a ray ends, which way the surface looks there, and what colour it has. */
    private record Hit(double distance, Vector normal, Vector colour, double mirror) {}

    private record Ball(Vector centre, double radius, Vector colour, double mirror) {
        /** Null if the ray passes by. */
        Hit hit(Ray ray) {
            Vector offset = ray.from.minus(centre);
            double along = offset.dot(ray.to);
            double under = along * along - offset.dot(offset) + radius * radius;
            if (under < 0) {
                return null;
            }
            double distance = -along - Math.sqrt(under);
            if (distance < 1e-6) {
                return null;
            }
            return new Hit(distance, ray.at(distance).minus(centre).unit(), colour, mirror);
        }
    }

    private static List<Ball> balls() {
        var random = new Random(24);
        var balls = new ArrayList<Ball>();
        for (int count = 0; count < 24; count++) {
            var centre = new Vector(
                    8 * random.nextDouble() - 4, 0.3 + 3 * random.nextDouble(), 6 * random.nextDouble() - 2);
            var colour = new Vector(random.nextDouble(), random.nextDouble(), random.nextDouble());
            balls.add(new Ball(centre, 0.3 + 0.7 * random.nextDouble(), colour, 0.6 * random.nextDouble()));
        }
        return balls;
    }

    /** One picture. */
    @Benchmark
    public long raytracer() {
        byte[] picture = new byte[3 * WIDTH * HEIGHT];
        for (int row = 0; row < HEIGHT; row++) {
            for (int column = 0; column < WIDTH; column++) {
                Vector colour = pixel(row, column);
                int at = 3 * (row * WIDTH + column);
                picture[at] = level(colour.x);
                picture[at + 1] = level(colour.y);
                picture[at + 2] = level(colour.z);
            }
        }
        return Checksum.expect(1_384_899_436L, Checksum.of(picture));
    }

    private static byte level(double light) {
        return (byte) Math.min(255, (int) (255 * light));
    }

    private Vector pixel(int row, int column) {
        Vector sum = new Vector(0, 0, 0);
        for (double down : JITTER) {
            for (double right : JITTER) {
                var to = new Vector(
                        (column + right - WIDTH / 2.0) / HEIGHT, (HEIGHT / 2.0 - row - down) / HEIGHT, 1.0);
                sum = sum.plus(light(new Ray(EYE, to.unit()), BOUNCES));
            }
        }
        return sum.times(1.0 / (JITTER.length * JITTER.length));
    }

    /** What comes along a ray. */
    private Vector light(Ray ray, int bounces) {
        Hit hit = nearest(ray);
        if (hit == null) {
            return SKY;
        }
        Vector at = ray.at(hit.distance).plus(hit.normal.times(1e-6));
        Vector toLamp = LAMP.minus(at);
        double facing = Math.max(0, hit.normal.dot(toLamp.unit()));
        boolean inShadow = facing > 0 && isHidden(at, toLamp);
        Vector own = hit.colour.times(0.2 + (inShadow ? 0 : 0.8 * facing));
        if (bounces == 0 || hit.mirror == 0) {
            return own;
        }
        Vector mirrored = ray.to.minus(hit.normal.times(2 * hit.normal.dot(ray.to)));
        Vector seen = light(new Ray(at, mirrored), bounces - 1);
        return own.times(1 - hit.mirror).plus(seen.times(hit.mirror));
    }

    private boolean isHidden(Vector at, Vector toLamp) {
        Hit between = nearest(new Ray(at, toLamp.unit()));
        return between != null && between.distance * between.distance < toLamp.dot(toLamp);
    }

    private Hit nearest(Ray ray) {
        Hit nearest = floor(ray);
        for (Ball ball : balls) {
            Hit hit = ball.hit(ray);
            if (hit != null && (nearest == null || hit.distance < nearest.distance)) {
                nearest = hit;
            }
        }
        return nearest;
    }

    private static Hit floor(Ray ray) {
        if (ray.to.y >= 0) {
            return null;
        }
        double distance = -ray.from.y / ray.to.y;
        if (distance < 1e-6) {
            return null;
        }
        Vector at = ray.at(distance);
        boolean dark = ((long) Math.floor(at.x) + (long) Math.floor(at.z)) % 2 == 0;
        double shade = dark ? 0.2 : 0.9;
        return new Hit(distance, new Vector(0, 1, 0), new Vector(shade, shade, shade), 0.2);
    }
}
