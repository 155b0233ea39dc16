package palisade.lab.jvm;

import java.io.Serializable;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** What is made for {@link Serial} and {@link Xml}: orders of customers, the same ones every time. */
final class Order implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final String[] GOODS = {"anvil", "bellows", "chisel", "drill", "file", "hammer", "lathe", "rasp"};

    /** How fast it shall arrive. */
    enum Haste {
        EXPRESS,
        NORMAL,
        WHENEVER
    }

    /** Somebody who orders. Several orders are one customer's. */
    static final class Customer implements Serializable {
        private static final long serialVersionUID = 1L;
        final int number;
        final String name;
        /** Back to the orders: the graph has circles. */
        final List<Order> orders = new ArrayList<>();

        Customer(int number) {
            this.number = number;
            name = "Customer & Sons no. " + number;
        }
    }

    /** So many of one thing. */
    record Item(String good, int count, BigDecimal price) implements Serializable {}

    final int number;
    final Customer customer;
    final LocalDate date;
    final Haste haste;
    final List<Item> items = new ArrayList<>();
    final Map<String, Integer> remarks = new HashMap<>();
    final byte[] stamp = new byte[16];

    private Order(int number, Customer customer, Random random) {
        this.number = number;
        this.customer = customer;
        date = LocalDate.ofEpochDay(random.nextInt(20_000));
        haste = Haste.values()[random.nextInt(Haste.values().length)];
        random.nextBytes(stamp);
        for (int item = random.nextInt(5); item >= 0; item--) {
            String good = GOODS[random.nextInt(GOODS.length)];
            items.add(new Item(good, 1 + random.nextInt(100), BigDecimal.valueOf(random.nextInt(100_000), 2)));
            remarks.merge(good, 1, Integer::sum);
        }
        customer.orders.add(this);
    }

    static List<Order> some(int count) {
        var random = new Random(count);
        var customers = new ArrayList<Customer>();
        for (int number = 0; number < 1 + count / 10; number++) {
            customers.add(new Customer(number));
        }
        var orders = new ArrayList<Order>();
        for (int number = 0; number < count; number++) {
            orders.add(new Order(number, customers.get(random.nextInt(customers.size())), random));
        }
        return orders;
    }

    BigDecimal total() {
        BigDecimal total = BigDecimal.ZERO;
        for (Item item : items) {
            total = total.add(item.price().multiply(BigDecimal.valueOf(item.count())));
        }
        return total;
    }

    /** The whole of it, and how it hangs together. */
    long checksum() {
        long sum = number * 31L + customer.number;
        sum = sum * 31 + customer.orders.indexOf(this);
        sum = sum * 31 + date.toEpochDay();
        sum = sum * 31 + haste.ordinal();
        sum = sum * 31 + total().unscaledValue().longValueExact();
        sum = sum * 31 + remarks.hashCode();
        return sum * 31 + Checksum.of(stamp);
    }
}
