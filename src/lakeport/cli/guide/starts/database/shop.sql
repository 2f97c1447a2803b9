-- What is in shop.db
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
INSERT INTO customers VALUES (1, 'Ada'), (2, 'Grace');
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, updated_at TEXT, amount REAL);
INSERT INTO orders VALUES (1, 1, '2024-03-04 10:00:00', 12.5), (2, 2, '2024-03-05 11:30:00', 7.25);
